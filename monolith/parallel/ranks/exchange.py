"""What ranks send each other: every rank a piece to every other, by the collectives of torch.distributed."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from monolith.errors import NotFiniteError


class Exchange:
    """The ranks of a process group. Every rank makes the same calls in the same order."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        """Use a process group, by default that of all ranks."""
        if not dist.is_initialized():
            raise ValueError(
                "there is no process group; start the job with torchrun, mpirun or `monolith launch --sync`, or call "
                "torch.distributed.init_process_group"
            )
        self._group = group
        self.rank = dist.get_rank(group)
        self.num_ranks = dist.get_world_size(group)

    def swap(self, pieces: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """Send piece r of a flat tensor to rank r, and return the pieces that came from ranks 0, 1, and so on.

        `sent` and `received` are the sizes of the pieces.
        """
        out = pieces.new_empty(sum(received))
        dist.all_to_all_single(out, pieces, list(received), list(sent), group=self._group)
        return out

    def swap_counts(self, counts: Tensor) -> Tensor:
        """Send row r of a matrix to rank r, and return a matrix with the row of each rank."""
        out = torch.empty_like(counts)
        dist.all_to_all_single(out, counts, group=self._group)
        return out

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors of floats by their mean over all ranks, in place: one message for all of them."""
        if not tensors:
            return
        flat = torch.cat([one.reshape(-1) for one in tensors])
        dist.all_reduce(flat, group=self._group)
        flat /= self.num_ranks
        for one, mean in zip(tensors, torch.split(flat, [one.numel() for one in tensors]), strict=True):
            one.copy_(mean.view_as(one))

    def largest(self, number: int) -> int:
        """Return the largest number of all ranks."""
        value = torch.tensor([number])
        dist.all_reduce(value, dist.ReduceOp.MAX, group=self._group)
        return int(value)

    def check_all_finite(self, is_finite: bool, words: str) -> None:
        """Raise a NotFiniteError on every rank if the values of one are not finite; `words` say which."""
        worst = self.largest(0 if is_finite else self.rank + 1)
        if worst:
            raise NotFiniteError(f"{words} of rank {worst - 1} are not finite; no rank has changed a row")
