"""What a transform is: a step that turns a batch into a batch, and depends on that batch alone."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from monolith.data.batch import Batch, Column, empty_column
from monolith.data.schema import Dtype, Schema
from monolith.tensors import Ragged

_NAMES = {torch.int64: "int64", torch.float32: "float32"}


class Transform(ABC):
    """A step on batches; random draws depend on its seed and the batch's name."""

    @abstractmethod
    def __call__(self, batch: Batch) -> Batch:
        """Return the changed batch, under the same offsets."""


class Filter(Transform):
    """A transform that only drops events."""

    @abstractmethod
    def mask(self, batch: Batch) -> Tensor:
        """Return a bool [events]: true for those to keep."""

    def __call__(self, batch: Batch) -> Batch:
        """Return the events to keep."""
        return batch.select(self.mask(batch))


@dataclass(frozen=True)
class Compose(Transform):
    """Several transforms, one after the other; what an earlier one drops, later ones do not see."""

    transforms: Sequence[Transform]

    def __post_init__(self) -> None:
        """Reject what is no transform."""
        for transform in self.transforms:
            if not isinstance(transform, Transform):
                raise TypeError(f"Compose takes transforms, got {transform!r}")
        object.__setattr__(self, "transforms", tuple(self.transforms))

    def __call__(self, batch: Batch) -> Batch:
        """Return what the last transform makes of it."""
        for transform in self.transforms:
            batch = transform(batch)
        return batch


@dataclass(frozen=True)
class LogicalOr(Filter):
    """Keeps the events that at least one of two filters keeps."""

    x: Filter
    y: Filter

    def __post_init__(self) -> None:
        """Reject anything but two plain filters."""
        for side in (self.x, self.y):
            if not isinstance(side, Filter) or isinstance(side, LogicalOr):
                raise TypeError(f"LogicalOr takes two basic filters, such as FilterByFid, got {side!r}")

    def mask(self, batch: Batch) -> Tensor:
        """Return where one of them is true."""
        return self.x.mask(batch) | self.y.mask(batch)


def schema_after(step: Callable[[Batch], Batch], schema: Schema) -> Schema:
    """Return the columns that a step makes of a source's, found by giving it a batch without events.

    A column that the step needs and the source does not have is an error here, before any data is read.
    """
    empty = Batch({name: empty_column(kind) for name, kind in schema.types.items()}, first=0, last=0)
    before = dict(schema.columns)
    after = {name: dtype_of(column) for name, column in step(empty).columns.items()}
    # A batch has ids of texts as it has other ids: only the schema tells them apart.
    kept = {
        name: before[name] for name, dtype in after.items() if before.get(name, "").replace("hash", "int64") == dtype
    }
    return replace(schema, columns=tuple((after | kept).items()))


def dtype_of(column: Column) -> Dtype:
    """Return the type that a schema gives a column.

    >>> dtype_of(torch.zeros(2, 3)), dtype_of(Ragged.from_lists([[1]]))
    ('float32[3]', 'int64[]')
    """
    values = column.values if isinstance(column, Ragged) else column
    if isinstance(column, Ragged) and values.dtype == torch.uint8:
        return "bytes"
    if values.dtype not in _NAMES:
        raise TypeError(f"a column of a schema is int64, float32 or bytes, got {values.dtype}")
    name = _NAMES[values.dtype]
    if isinstance(column, Ragged):
        return f"{name}[]"
    return name if column.dim() == 1 else f"{name}[{column.shape[1]}]"
