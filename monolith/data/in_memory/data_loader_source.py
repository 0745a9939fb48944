"""DataLoaderSource: a torch DataLoader as batches."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch.utils.data import DataLoader, RandomSampler

from monolith.data.batch import Column
from monolith.data.in_memory.counted_items import CountedItems
from monolith.data.in_memory.loader_state import from_json, to_json
from monolith.data.in_memory.plain_columns import infer_schema, to_columns
from monolith.data.schema import Schema
from monolith.data.source import State


class DataLoaderSource(CountedItems):
    """Batches of one pass over a data loader, as a `Source`.

    The position is the number of batches, so restoring reads past them and is exact if the loader yields the same each
    time; its generators are set back to where they stood when this source was made. A loader with `state_dict` and
    `load_state_dict`, such as torchdata's StatefulDataLoader, is restored by these instead.

    >>> data = torch.utils.data.TensorDataset(torch.arange(3), torch.ones(3, 2))
    >>> source = DataLoaderSource(DataLoader(data, batch_size=2), names=["uid", "dense"])
    >>> [batch.columns["uid"].tolist() for batch in source], dict(source.schema)
    ([[0, 1], [2]], {'uid': 'int64', 'dense': 'float32[2]'})

    Args:
        loader: Yields dicts of tensors, or tuples of them.
        schema: Columns to take, and their types; without it, those of the first batch, which is read for that.
        names: Names of the tensors where batches are tuples.

    Raises:
        ValueError: The loader shuffles and has no generator, so that no position could be returned to.
    """

    def __init__(
        self, loader: DataLoader[Any], schema: Schema | None = None, *, names: Sequence[str] | None = None
    ) -> None:
        self._loader = loader
        self._names = names
        self._has_state = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
        if not self._has_state:
            _require_generator(loader)
        self._generators = [(generator, generator.get_state()) for generator in _generators(loader)]
        self._loader_state: Any = loader.state_dict() if self._has_state else None  # type: ignore[attr-defined]
        self._first_state = self._loader_state
        super().__init__(schema or self._infer())

    def state(self) -> State:
        """Return the number of batches, and the loader's own position where it has one."""
        own = {"loader": to_json(self._loader_state)} if self._has_state else {}
        return {**super().state(), **own}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position; ValueError if it is one of another kind of loader."""
        own = {name: value for name, value in state.items() if name != "item"}
        if set(own) != ({"loader"} if self._has_state else set()):
            raise ValueError(
                f"this loader has {'a' if self._has_state else 'no'} state of its own, "
                f"the position says otherwise: {json.dumps(dict(state))[:200]}"
            )
        super().restore({"item": state.get("item")})
        if self._has_state:
            self._loader_state = from_json(own["loader"])

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th batch; the others are loaded and dropped, so rather give each part a loader."""
        part = super().shard(num_shards, index)
        part._loader_state = part._first_state
        return part

    @property
    def fixed_parts(self) -> str:
        """Why another number of workers cannot go on; empty if they can."""
        return "a loader with a state of its own has one position at a time" if self._has_state else ""

    def _begin(self) -> Iterator[Any]:
        for generator, state in self._generators:
            generator.set_state(state)
        return iter(self._loader)

    def _begin_at(self, position: int) -> Iterator[Any]:
        if not self._has_state:
            return super()._begin_at(position)
        self._loader.load_state_dict(self._loader_state)  # type: ignore[attr-defined]
        return iter(self._loader)

    def _next_batch(self) -> Any:
        batch = super()._next_batch()
        if self._has_state and batch is not None:
            self._loader_state = self._loader.state_dict()  # type: ignore[attr-defined]
        return batch

    def _columns(self, items: list[Any], first: int) -> Mapping[str, Column]:
        try:
            return to_columns(self._named(items[0]), self.schema)
        except (ValueError, TypeError) as error:
            raise ValueError(f"batch {first} of the loader: {error}") from error

    def _named(self, item: Any) -> Mapping[str, Any]:
        if isinstance(item, Mapping):
            return item
        if not isinstance(item, tuple | list) or self._names is None or len(self._names) != len(item):
            parts = f"{len(item)} parts" if isinstance(item, tuple | list) else type(item).__name__
            raise ValueError(f"the loader must yield dicts, or tuples with a name for each in names=; got {parts}")
        return dict(zip(self._names, item, strict=True))

    def _infer(self) -> Schema:
        first = next(self._begin(), None)
        if self._has_state:
            self._loader.load_state_dict(self._first_state)  # type: ignore[attr-defined]
        if first is None:
            raise ValueError("the loader has no batches, which says nothing of their columns; give a schema")
        return infer_schema(self._named(first))


def _generators(loader: DataLoader[Any]) -> list[torch.Generator]:
    owners = (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
    found = [getattr(owner, "generator", None) for owner in owners]
    return list({id(generator): generator for generator in found if isinstance(generator, torch.Generator)}.values())


def _require_generator(loader: DataLoader[Any]) -> None:
    sampler = getattr(loader, "sampler", None)
    if isinstance(sampler, RandomSampler) and sampler.generator is None:
        raise ValueError(
            "the loader shuffles in an order that no restart can repeat; make it with "
            "generator=torch.Generator().manual_seed(...), or with shuffle=False"
        )
