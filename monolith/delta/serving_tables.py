"""Training tables as serving tables: the same rows without optimizer state, compressed if asked."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from monolith.embedding import Compressor, Segment, SgdOptimizer, Table, TableConfig
from monolith.protos.embedding_hash_table_pb2 import EntryConfig

OnRowsServed = Callable[[str, int, int], None]
"""Called now and then with the table, the rows done, and the rows at the start."""


def serving_config(
    config: TableConfig, compressor: Compressor | None = None, *, skip_zero_embedding: bool = False
) -> TableConfig:
    """Return the configuration that serves the rows of a training table.

    Rows are stored as each segment's compressor says, or all as `compressor` does. Nothing expires by itself: the
    trainer says which rows go. With `skip_zero_embedding`, rows of zeros are not kept.
    """
    segments = tuple(
        Segment(dim=segment.dim, optimizer=SgdOptimizer(), compressor=compressor or segment.compressor)
        for segment in config.segments
    )
    return TableConfig(name=config.name, segments=segments, serving=True, skip_zero_embedding=skip_zero_embedding)


def to_serving(
    table: Table,
    compressor: Compressor | None = None,
    progress: OnRowsServed | None = None,
    *,
    skip_zero_embedding: bool = False,
) -> Table:
    """Return a serving table with the rows of `table`, which may be in training.

    Each row is whole, from some moment between call and return.
    """
    served = Table(serving_config(table.config, compressor, skip_zero_embedding=skip_zero_embedding), shard=table.shard)
    total, done = len(table), 0
    for ids, weights in table.items():
        served.assign(ids, weights)
        done += len(ids)
        if progress is not None:
            progress(table.config.name, done, max(total, done))
    return served


def config_to_json(config: TableConfig) -> dict[str, Any]:
    """Return what a reader needs to make an equal serving table."""
    segments = [
        {"dim": segment.dim, "compressor": segment.compressor.kind, **segment.compressor.parameters()}
        for segment in config.segments
    ]
    return {"dim": config.dim, "segments": segments, "skip_zero_embedding": config.skip_zero_embedding}


def config_from_json(name: str, fields: Mapping[str, Any]) -> TableConfig:
    """Return what `config_to_json` described."""
    segments = tuple(_segment(segment) for segment in fields["segments"])
    skips = fields.get("skip_zero_embedding", False)  # exports of old have no word of it
    if not isinstance(skips, bool):
        raise ValueError(f"table {name!r}: skip_zero_embedding must be true or false, got {skips!r}")
    config = TableConfig(name=name, segments=segments, serving=True, skip_zero_embedding=skips)
    if config.dim != fields["dim"]:
        raise ValueError(
            f"table {name!r}: its segments have {config.dim} floats together, its dim says {fields['dim']}"
        )
    return config


def _segment(fields: Mapping[str, Any]) -> Segment:
    parameters = {name: value for name, value in fields.items() if name not in ("dim", "compressor")}
    message = EntryConfig.Segment(dim_size=fields["dim"])
    chosen = getattr(message.comp_config, fields["compressor"], None)
    if chosen is None:
        raise ValueError(f"unknown compressor {fields['compressor']!r}")
    chosen.SetInParent()
    for name, value in parameters.items():
        setattr(chosen, name, value)
    return replace(Segment.from_proto(message, serving=True), optimizer=SgdOptimizer())
