"""Batch: the events a training step takes at once."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Events `first` to `last - 1` of one partition, as one tensor per column.

    The partition and the offsets name the batch: the same name is the same events, in every run.

    >>> import torch
    >>> len(Batch(columns={"uid": torch.tensor([7, 8])}, first=10, last=12))
    2
    """

    columns: dict[str, Tensor]
    """One tensor per column of the source's schema, all of length `last - first`."""

    first: int
    """Offset of the first event in its partition."""

    last: int
    """Offset after the last event."""

    partition: str = "0"
    """The part of the source the offsets count in."""

    def __post_init__(self) -> None:
        """Reject columns that do not hold what the offsets say."""
        wrong = {name: tuple(t.shape) for name, t in self.columns.items() if t.shape[:1] != (len(self),)}
        if wrong:
            raise ValueError(f"batch [{self.first}, {self.last}) needs {len(self)} values per column, got {wrong}")

    def __len__(self) -> int:
        return self.last - self.first
