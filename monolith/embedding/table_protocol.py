"""What every table promises, wherever its rows are."""

from typing import Protocol

from torch import Tensor


class TableProtocol(Protocol):
    """Rows of floats, addressed by int64 id; ids are a tensor of one dimension, values one row per id."""

    @property
    def dim(self) -> int:
        """Width of a row, in floats."""
        ...

    def __len__(self) -> int:
        """Return the number of rows."""
        ...

    def lookup(self, ids: Tensor) -> Tensor:
        """Return one row per id, in order; unknown ids read as zero and get no row."""
        ...

    def assign(self, ids: Tensor, values: Tensor) -> object:
        """Overwrite rows; the last value of a repeated id stays, new ids get a row."""
        ...

    def assign_add(self, ids: Tensor, values: Tensor) -> object:
        """Add to rows; values of a repeated id add up, new ids get a row."""
        ...

    def apply_gradients(self, ids: Tensor, gradients: Tensor) -> object:
        """Step the optimizer once per id with the sum of its gradients; new ids get a row."""
        ...

    def erase(self, ids: Tensor) -> int:
        """Remove rows; returns how many there were."""
        ...

    def contains(self, ids: Tensor) -> Tensor:
        """Return a bool per id: whether it has a row."""
        ...
