"""Table configurations as the native core takes them."""

import warnings
from typing import Any

from monolith._core import native
from monolith.embedding.config.compressors import Compressor
from monolith.embedding.config.initializers import Initializer
from monolith.embedding.config.optimizers import Optimizer
from monolith.embedding.config.segment import Segment
from monolith.embedding.config.table import TableConfig
from monolith.embedding.hash_shards import HashShard


def make_native_table(config: TableConfig, max_changes_per_consumer: int, shard: HashShard) -> native.RowTable:
    """Return an empty native table for the ids of a shard; a setting it cannot honour raises or warns."""
    for place, segment in enumerate(config.segments):
        if segment.optimizer.delay_compensation != 0:
            raise ValueError(
                f"table {config.name!r}: segment {place} asks for delay compensation, which needs the weights its "
                "gradient was computed with, and a table keeps the newest only; compensate gradients with "
                "monolith._core.native.compensate_delay and use the optimizer inside"
            )
    if config.evict_every_hours > 0:
        warnings.warn(
            f"table {config.name!r}: evict_every_hours={config.evict_every_hours} is for the training loop; a table by "
            "itself evicts when evict() is called",
            stacklevel=3,
        )
    return native.RowTable(
        config.name,
        [_segment(segment, config.seed) for segment in config.segments],
        serving=config.serving,
        skip_zero_embedding=config.skip_zero_embedding,
        initial_capacity=config.initial_capacity,
        max_memory_bytes=config.max_memory_bytes or 0,
        evict_oldest=config.memory_policy == "evict_oldest",
        expire_days=config.expire_days,
        slot_expire_days=dict(config.slot_expire_days),
        max_changes_per_consumer=max_changes_per_consumer,
        shard=shard[0],
        num_shards=shard[1],
    )


def _segment(segment: Segment, seed: int) -> native.SegmentConfig:
    return native.SegmentConfig(
        segment.dim,
        _optimizer(segment.optimizer),
        _initializer(segment.initializer, seed),
        _compressor(segment.compressor),
    )


def _optimizer(optimizer: Optimizer) -> native.OptimizerConfig:
    params = list(optimizer.hyper_parameters().values())
    return native.OptimizerConfig(
        optimizer.kind, params, optimizer.stochastic_rounding_float16, optimizer.max_gradient_norm
    )


def _initializer(initializer: Initializer, seed: int) -> native.InitializerConfig:
    a, b = initializer.parameters()
    return native.InitializerConfig(initializer.kind, a, b, seed)


def _compressor(compressor: Compressor) -> native.CompressorConfig:
    values: dict[str, Any] = compressor.parameters()  # floats, and a whole step_size
    return native.CompressorConfig(compressor.kind, **values)
