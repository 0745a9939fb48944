"""One stream that carries records of several data sources, taken apart by name."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from monolith.data.batch import Batch
from monolith.data.data_source import data_source_key
from monolith.data.flow.map import Mapped
from monolith.data.source import Source
from monolith.tensors import Ragged


class SplitFlow(Mapped):
    """The records of one data source out of a stream of several, by their `data_source_key`.

    Every flow reads a copy of the source for itself and passes over the records of the others. That costs reading the
    stream once per flow; in return there is no queue between flows that could fill up or stand still, and the position
    of each flow is that of its own copy: exact, and independent of how far the others are.

    The batches of a flow keep the source's offsets, in partitions named after the flow.

    Args:
        source: The stream; read from its beginning, whatever position the source given stands at.
        data_flow: Names of the data sources, all different.
        index: Which of them this is.
        key_column: Column of keys, int64.
    """

    def __init__(
        self, source: Source, data_flow: Sequence[str], index: int, *, key_column: str = "data_source_key"
    ) -> None:
        names = list(data_flow)
        if isinstance(data_flow, str) or not 0 <= index < len(names):
            raise ValueError(f"flow {index} of {data_flow!r}: data_flow is a list of names, index a place in it")
        keys = {name: data_source_key(name) for name in names}
        if len(set(keys.values())) < len(names):
            raise ValueError(f"the names {names} do not have different keys: {keys}")
        if dict(source.schema.columns).get(key_column) != "int64":
            raise ValueError(
                f"SplitFlow needs an int64 column {key_column!r}; the source has {dict(source.schema.columns)}"
            )
        super().__init__(source.shard(1, 0), self._choose)
        self._name, self._key, self._key_column = names[index], keys[names[index]], key_column

    def _choose(self, batch: Batch) -> Batch:
        keys = batch.columns[self._key_column]
        if isinstance(keys, Ragged) or keys.dtype != torch.int64:
            raise TypeError(f"SplitFlow: column {self._key_column!r} of batch {batch.name} must be int64 [events]")
        # Keys are 32 bits without sign; a reader may have taken them as signed. The lowest 8 bits are not the source's.
        chosen = batch.select((keys & 0xFFFFFF00) == self._key)
        return replace(chosen, partition=f"{batch.partition}:{self._name}")
