"""What every table promises, wherever its rows are, and the slow and obvious table that shows it."""

from typing import Protocol

import torch
from torch import Tensor

from monolith.embedding.tensor_checks import check_finite, flat_ids, float_rows


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
        """Overwrite rows; the last value of a repeated id stays, new ids get a row. NaN and infinity are refused."""
        ...

    def assign_add(self, ids: Tensor, values: Tensor) -> object:
        """Add to rows; values of a repeated id add up, new ids get a row. NaN and infinity are refused.

        A row that would not be finite then keeps its value; the others are changed, and a ValueError names it.
        """
        ...

    def apply_gradients(self, ids: Tensor, gradients: Tensor) -> object:
        """Step the optimizer once per id with the sum of its gradients; new ids get a row.

        NaN and infinity are refused. A row that would not be finite then keeps its value; the others are changed, and a
        ValueError names it.
        """
        ...

    def erase(self, ids: Tensor) -> int:
        """Remove rows; returns how many there were."""
        ...

    def contains(self, ids: Tensor) -> Tensor:
        """Return a bool per id: whether it has a row."""
        ...


class DictTable:
    """A dict of id -> row, with plain SGD; a new row starts at zero. The native table must agree with it bit for bit.

    >>> table = DictTable(dim=2, learning_rate=0.5)
    >>> table.apply_gradients(torch.tensor([7, 7]), torch.tensor([[1.0, 0.0], [1.0, 4.0]]))
    >>> table.lookup(torch.tensor([7, 8]))
    tensor([[-1., -2.],
            [ 0.,  0.]])
    """

    def __init__(self, dim: int, learning_rate: float = 1.0) -> None:
        """Make an empty table."""
        self.dim = dim
        self.rows: dict[int, Tensor] = {}
        self._learning_rate = learning_rate

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def lookup(self, ids: Tensor) -> Tensor:
        """Return one row per id, in order; unknown ids read as zero and get no row."""
        zero = torch.zeros(self.dim)
        rows = [self.rows.get(id_, zero) for id_ in flat_ids(ids).tolist()]
        return torch.stack(rows) if rows else torch.empty(0, self.dim)

    def assign(self, ids: Tensor, values: Tensor) -> None:
        """Overwrite rows; the last value of a repeated id stays, new ids get a row."""
        self.rows.update(self._pairs(ids, values))

    def assign_add(self, ids: Tensor, values: Tensor) -> None:
        """Add to rows; values of a repeated id add up, new ids get a row."""
        changed: dict[int, Tensor] = {}
        for id_, value in self._pairs(ids, values):
            changed[id_] = changed.get(id_, self.rows.get(id_, torch.zeros(self.dim))) + value
        self._take(changed)

    def apply_gradients(self, ids: Tensor, gradients: Tensor) -> None:
        """Step once per id with the sum of its gradients, added up in order; a gradient not finite is a ValueError."""
        sums: dict[int, Tensor] = {}
        for id_, gradient in self._pairs(ids, gradients):
            sums[id_] = sums[id_] + gradient if id_ in sums else gradient
        zero = torch.zeros(self.dim)
        self._take({id_: self.rows.get(id_, zero) - self._learning_rate * one for id_, one in sums.items()})

    def erase(self, ids: Tensor) -> int:
        """Remove rows; returns how many there were."""
        return sum(self.rows.pop(id_, None) is not None for id_ in flat_ids(ids).tolist())

    def contains(self, ids: Tensor) -> Tensor:
        """Return a bool per id: whether it has a row."""
        return torch.tensor([id_ in self.rows for id_ in flat_ids(ids).tolist()], dtype=torch.bool)

    def _pairs(self, ids: Tensor, values: Tensor) -> list[tuple[int, Tensor]]:
        flat = flat_ids(ids).tolist()
        if values.dim() == 2 and values.shape != (len(flat), self.dim):
            raise ValueError(f"values must be {len(flat)} x {self.dim} (ids x dim), got {tuple(values.shape)}")
        rows = float_rows("values", values)
        check_finite("dict", ids, rows)
        return list(zip(flat, rows.clone(), strict=True))

    def _take(self, changed: dict[int, Tensor]) -> None:
        finite = {id_: row for id_, row in changed.items() if row.isfinite().all()}
        self.rows.update(finite)
        for id_ in changed.keys() - finite.keys():
            self.rows.setdefault(id_, torch.zeros(self.dim))
            raise ValueError(f"table 'dict': the row of id {id_} would be NaN or infinite; it keeps its value")
