"""What ranks send each other: every rank a piece to every other, by the collectives of torch.distributed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, cast

import torch
import torch.distributed as dist
from torch import Tensor

from monolith.errors import NotFiniteError

CPU: Final = torch.device("cpu")

_PIECES = 4
"""Pieces of 16 bits of a number."""


class Exchange:
    """The ranks of a process group. Every rank makes the same calls in the same order.

    A call raises a ConnectionError if another rank has ended or does not answer within the time-out of the group.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None = None,
        *,
        device: torch.device = CPU,
        explain: Callable[[RuntimeError], str] | None = None,
    ) -> None:
        """Use a process group, by default that of all ranks; `explain` says in words why a call failed.

        Messages leave from the memory of `device`: the processor with gloo, this rank's GPU with NCCL. Tensors that are
        elsewhere are copied there and back.
        """
        if not dist.is_initialized():
            raise ValueError(
                "there is no process group; start the job with torchrun, mpirun or `monolith launch --sync`, or call "
                "torch.distributed.init_process_group"
            )
        self._group = group
        self._device = device
        self._explain = explain
        self.rank = dist.get_rank(group)
        self.num_ranks = dist.get_world_size(group)

    def swap(self, pieces: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """Send piece r of a flat tensor to rank r, and return the pieces that came from ranks 0, 1, and so on.

        `sent` and `received` are the sizes of the pieces.
        """
        out = pieces.new_empty(sum(received), device=self._device)
        with self._named():
            dist.all_to_all_single(out, pieces.to(self._device), list(received), list(sent), group=self._group)
        return out.to(pieces.device)

    def swap_counts(self, counts: Tensor) -> Tensor:
        """Send row r of a matrix to rank r, and return a matrix with the row of each rank."""
        out = torch.empty_like(counts, device=self._device)
        with self._named():
            dist.all_to_all_single(out, counts.to(self._device), group=self._group)
        return out.to(counts.device)

    def average(self, tensors: Sequence[Tensor], numbers: Sequence[int] = ()) -> list[list[int]]:
        """Replace tensors of floats by their mean over all ranks, in place, and return the numbers of every rank.

        One message carries all of them. All ranks give equally many numbers.
        """
        # A rank adds its numbers to the zeros of the others, 16 bits at a time: floats add those up exactly.
        told = torch.zeros(self.num_ranks, _PIECES * len(numbers))
        told[self.rank] = torch.tensor(numbers, dtype=torch.int64).view(torch.int16)
        flat = torch.cat([one.reshape(-1).to(self._device) for one in (*tensors, told)])
        with self._named():
            dist.all_reduce(flat, group=self._group)
        *sums, told = torch.split(flat, [*(one.numel() for one in tensors), told.numel()])
        for one, total in zip(tensors, sums, strict=True):
            total /= self.num_ranks
            one.copy_(total.view_as(one))
        found = told.cpu().to(torch.int16).view(torch.int64).view(self.num_ranks, len(numbers))
        return cast("list[list[int]]", found.tolist())

    def largest(self, *numbers: int) -> list[int]:
        """Return the largest of each number over all ranks."""
        values = torch.tensor(numbers, device=self._device)
        with self._named():
            dist.all_reduce(values, dist.ReduceOp.MAX, group=self._group)
        found: list[int] = values.tolist()
        return found

    def gather(self, number: int) -> list[int]:
        """Return the number of every rank."""
        return [one for (one,) in self.gather_lists([number])]

    def gather_lists(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return the numbers of every rank; all ranks give equally many."""
        flat = self._gather(torch.tensor(numbers), [len(numbers)] * self.num_ranks)
        found: list[list[int]] = flat.view(self.num_ranks, -1).tolist()
        return found

    def gather_texts(self, text: str) -> list[str]:
        """Return the text of every rank."""
        own = torch.frombuffer(bytearray(text.encode()) or bytearray(1), dtype=torch.uint8)
        sizes = self.gather(len(text.encode()))
        parts = torch.split(self._gather(own[: len(text.encode())], sizes), sizes)
        return [bytes(part.tolist()).decode() for part in parts]

    def send_from_first(self, data: bytes | None = None) -> bytes:
        """Return on every rank the bytes that rank 0 gives."""
        size = torch.tensor([0 if data is None else len(data)], device=self._device)
        with self._named():
            dist.broadcast(size, 0, group=self._group)
            flat = torch.zeros(int(size), dtype=torch.uint8, device=self._device)
            if data:
                flat.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
            if len(flat):
                dist.broadcast(flat, 0, group=self._group)
        return flat.cpu().numpy().tobytes()

    def barrier(self) -> None:
        """Return when all ranks are here."""
        self.largest(0)

    def check_all_finite(self, is_finite: bool, words: str, time: int) -> int:
        """Raise a NotFiniteError on every rank if the values of one are not finite; return the newest time of all."""
        worst, newest = self.largest(0 if is_finite else self.rank + 1, time)
        if worst:
            raise not_finite(words, worst - 1)
        return newest

    def _gather(self, own: Tensor, sizes: Sequence[int]) -> Tensor:
        # As a swap in which every rank gets the same piece: gloo's own gather wants pieces of one size.
        return self.swap(own.repeat(self.num_ranks), [len(own)] * self.num_ranks, sizes)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            words = str(error) if self._explain is None else self._explain(error)
            raise ConnectionError(words) from error


def not_finite(words: str, rank: int) -> NotFiniteError:
    """Return the error of all ranks if the values of one are not finite."""
    return NotFiniteError(f"{words} of rank {rank} are not finite; no rank has changed a row")
