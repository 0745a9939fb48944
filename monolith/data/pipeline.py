"""Pipeline: a source, and the steps its batches go through, written as one chain."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.flow import Mapped
from monolith.data.flow.mapped import BatchFunction
from monolith.data.schema import Schema
from monolith.data.source import Source, State


class Pipeline:
    """A source with the steps as methods; each returns a new pipeline, which is a source itself."""

    def __init__(self, source: Source) -> None:
        """Begin a chain at a source."""
        self.source: Source = source.source if isinstance(source, Pipeline) else source

    @property
    def schema(self) -> Schema:
        """The columns of every batch at the end of the chain."""
        return self.source.schema

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on."""
        return iter(self.source)

    def state(self) -> State:
        """Return the position behind the batches yielded so far."""
        return self.source.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        self.source.restore(state)

    def shard(self, num_shards: int, index: int) -> "Pipeline":
        """Return the same chain over part `index` of `num_shards` of the data."""
        return Pipeline(self.source.shard(num_shards, index))

    def map(self, function: BatchFunction, schema: Schema | None = None) -> "Pipeline":
        """Change each batch; give the schema if the function changes the columns."""
        return Pipeline(Mapped(self.source, function, schema))

    def filter(self, predicate: Callable[[Batch], Tensor]) -> "Pipeline":
        """Keep the events for which the predicate's mask [events] is true."""
        return self.map(lambda batch: batch.select(predicate(batch)))
