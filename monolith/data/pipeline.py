"""Pipeline: a source, and the steps its batches go through, written as one chain."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.flow import (
    Cached,
    CacheOne,
    Concatenated,
    Interleaved,
    Mapped,
    MergedWindow,
    Rebatched,
    Repeated,
    Shuffled,
    SplitFlow,
    Taken,
)
from monolith.data.flow.map import BatchFunction
from monolith.data.flow.parse import Parser, ParseStep
from monolith.data.input_config import current_input
from monolith.data.joiner import JoinConfig, Joiner
from monolith.data.parse.column_request import Missing
from monolith.data.parts import redivide
from monolith.data.parts.every_nth import split
from monolith.data.prefetch import Prefetched
from monolith.data.progress import share_read
from monolith.data.record_forms import RecordForm, make_parser
from monolith.data.schema import Dtype, Schema
from monolith.data.source import OnError, Source, State
from monolith.data.transforms import InstanceReweight, Transform, schema_after
from monolith.data.transforms.negative import ItemPool, NegativeGen, NegativeGenConfig


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

    def share_read(self) -> float | None:
        """Return how much of the data was read; None where nobody knows."""
        return share_read(self.source)

    def shard(self, num_shards: int, index: int) -> "Pipeline":
        """Return the same chain over part `index` of `num_shards` of the data."""
        return Pipeline(self.source.shard(num_shards, index))

    def split(self, count: int, index: int) -> "Pipeline":
        """Return the same chain over piece `index` of `count` of what it has left."""
        return Pipeline(split(self.source, count, index))

    def redivide(self, positions: Sequence[State | None], num_workers: int) -> list[State | None]:
        """Return where each of another number of workers begins; see `monolith.data.parts.redivide`."""
        return redivide(self.source, positions, num_workers)

    def map(self, function: BatchFunction, schema: Schema | None = None) -> "Pipeline":
        """Change each batch; give the schema if the function changes the columns."""
        # A function may change values: what a missing one read as before is then no longer known, and columns are not
        # what records have.
        after = replace(self.schema, missing=None) if schema is None else schema
        return Pipeline(Mapped(self.source, function, replace(after, records=None)))

    def parse(
        self,
        parser: Parser | RecordForm | None = None,
        *,
        on_error: OnError = "raise",
        fill_missing: Mapping[str, Missing] | None = None,
        **columns: Dtype,
    ) -> "Pipeline":
        """Turn serialized records into columns: `parse(uid="int64", tags="int64[]", label="float32")`.

        Args:
            parser: What the records are ("tf_example", "example", "example_batch", "instance" or "json"), or a parser
                of `monolith.data.parse` with all its options. If not given, `data_type` of the run's settings, else
                "tf_example".
            on_error: "skip" leaves out records that cannot be read and counts them: in `num_skipped` of the parser and
                of this step (`pipeline.source.num_skipped`, before another step follows).
            fill_missing: What a value reads as that a record lacks, by column: a text for "hash".
            columns: Names and types, with a form instead of a parser. "label" and "instance_weight" of the original's
                messages are the record's own.
        """
        parser = parser or current_input().record_form or "tf_example"
        if not isinstance(parser, str):
            if columns or fill_missing:
                wrong = ", ".join([*columns, *(["fill_missing"] if fill_missing else [])])
                raise ValueError(f"a parser says itself which columns it makes, and how; drop {wrong}")
            return Pipeline(Mapped(self.source, ParseStep(parser), parser.schema))
        if not columns:
            raise ValueError('name the columns to parse, such as parse(uid="int64", label="float32")')
        return self.parse(make_parser(parser, columns, on_error, fill_missing))

    def prefetch(self, capacity: int = 2, *, device: str | torch.device | None = None) -> "Pipeline":
        """Make batches ahead in the background, and on a device if one is named; 0 makes none."""
        return Pipeline(Prefetched(self.source, capacity, device=device))

    def join(self, config: JoinConfig) -> "Pipeline":
        """Join impressions with the actions that follow them; see `Joiner`."""
        return Pipeline(Joiner(self.source, config))

    def filter(self, predicate: Callable[[Batch], Tensor]) -> "Pipeline":
        """Keep the events for which the predicate's mask [events] is true."""
        return Pipeline(Mapped(self.source, lambda batch: batch.select(predicate(batch)), self.schema))

    def transform(self, step: Transform) -> "Pipeline":
        """Send each batch through a transform; a column that it needs and that is not there is an error at once."""
        return self.map(step, schema_after(step, self.schema))

    def instance_reweight(self, action_priority: str, reweight: str, method: int = 0) -> "Pipeline":
        """Repeat or drop events by the weights of their actions; see `InstanceReweight`."""
        return self.transform(InstanceReweight(action_priority, reweight, method))

    def negative_gen(self, config: NegativeGenConfig, pool: ItemPool | None = None) -> "Pipeline":
        """Put negatives before each positive, drawn from items seen before; see `NegativeGen`."""
        return Pipeline(NegativeGen(self.source, config, pool))

    def rebatch(self, batch_size: int, *, drop_remainder: bool = False) -> "Pipeline":
        """Cut the rows into batches of one size, across files and partitions."""
        return Pipeline(Rebatched(self.source, batch_size, drop_remainder=drop_remainder))

    def shuffle(self, *, window: int, batch_size: int, seed: int = 0) -> "Pipeline":
        """Put the rows of each window into a random order, the same in every run."""
        return Pipeline(Shuffled(self.source, window=window, batch_size=batch_size, seed=seed))

    def repeat(self, rounds: int | None = None) -> "Pipeline":
        """Read the data `rounds` times; None: for ever."""
        return Pipeline(Repeated(self.source, rounds))

    def take(self, num_batches: int) -> "Pipeline":
        """End after `num_batches` batches."""
        return Pipeline(Taken(self.source, num_batches))

    def cache(self, max_bytes: int | None = None) -> "Pipeline":
        """Keep the batches in memory for the next pass."""
        return Pipeline(Cached(self.source, max_bytes))

    def concatenate(self, *others: Source) -> "Pipeline":
        """Go on with other sources when this one ends."""
        return Pipeline(Concatenated([self.source, *_sources(others)]))

    def interleave(self, *others: Source, block_length: int = 1) -> "Pipeline":
        """Take turns with other sources, `block_length` batches each."""
        return Pipeline(Interleaved([self.source, *_sources(others)], block_length=block_length))

    def split_flow(self, data_flow: Sequence[str], index: int, *, key_column: str = "data_source_key") -> "Pipeline":
        """Keep the records of one of several data sources, read from the beginning by a copy of this chain."""
        return Pipeline(SplitFlow(self.source, data_flow, index, key_column=key_column))

    def merge_flow(self, *others: Source) -> "Pipeline":
        """Put flows together again, one batch of each by turns."""
        return self.interleave(*others)

    def cache_one(self) -> CacheOne:
        """End the chain with pairs of a batch and whether it is the last."""
        return CacheOne(self.source)

    def merged_window(self, size: int = 2, *, drop_remainder: bool = True) -> MergedWindow:
        """End the chain with tuples of `size` consecutive batches."""
        return MergedWindow(self.source, size, drop_remainder=drop_remainder)


def _sources(others: Sequence[Source]) -> list[Source]:
    return [other.source if isinstance(other, Pipeline) else other for other in others]
