"""One stretch of a row: its width, and its rules."""

from dataclasses import dataclass, field
from typing import Self

from monolith.embedding.config.compressors import Compressor, Fp32Compressor
from monolith.embedding.config.initializers import Initializer, ZerosInitializer
from monolith.embedding.config.optimizers import Optimizer, SgdOptimizer
from monolith.protos.embedding_hash_table_pb2 import EntryConfig
from monolith.protos.float_compressor_pb2 import FloatCompressorConfig
from monolith.protos.initializer_pb2 import InitializerConfig
from monolith.protos.optimizer_pb2 import OptimizerConfig


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of ``dim`` floats in every row of a table."""

    dim: int
    """Width of the segment, in floats."""

    optimizer: Optimizer
    """How a gradient changes it."""

    initializer: Initializer = field(default_factory=ZerosInitializer)
    """What it holds in a new row."""

    compressor: Compressor = field(default_factory=Fp32Compressor)
    """How it is stored for serving."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if not isinstance(self.dim, int) or self.dim <= 0:
            raise ValueError(f"segment: dim must be a positive integer, got {self.dim!r}")
        for name, kind in (("optimizer", Optimizer), ("initializer", Initializer), ("compressor", Compressor)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise TypeError(
                    f"segment: {name} must be one of the {kind.__name__} classes of monolith.embedding.entry, got "
                    f"{value!r}; CombineAsSegment also takes messages"
                )
        if self.optimizer.kind == "batch_softmax" and self.dim != 1:
            raise ValueError(f"segment: BatchSoftmaxOptimizer needs dim 1, got {self.dim}")

    def as_proto(self) -> EntryConfig.Segment:
        """Return the message that describes this segment."""
        return EntryConfig.Segment(
            init_config=self.initializer.as_proto(),
            opt_config=self.optimizer.as_proto(),
            comp_config=self.compressor.as_proto(),
            dim_size=self.dim,
        )

    @classmethod
    def from_proto(cls, segment: EntryConfig.Segment, *, serving: bool = False) -> Self:
        """Return the segment a message describes.

        A training segment must name initializer and optimizer, a serving segment its compressor. What it may leave out
        becomes zeros, SGD and fp32.
        """
        if serving and not segment.HasField("comp_config"):
            raise ValueError("comp config is missing from entry config: set comp_config")
        if not serving and not (segment.HasField("init_config") and segment.HasField("opt_config")):
            raise ValueError("init or opt config is missing from entry config: set init_config and opt_config")
        return cls(
            dim=segment.dim_size,
            optimizer=Optimizer.from_proto(segment.opt_config) if segment.HasField("opt_config") else SgdOptimizer(),
            initializer=(
                Initializer.from_proto(segment.init_config) if segment.HasField("init_config") else ZerosInitializer()
            ),
            compressor=(
                Compressor.from_proto(segment.comp_config) if segment.HasField("comp_config") else Fp32Compressor()
            ),
        )


def CombineAsSegment(  # noqa: N802 - the original's name
    dim_size: int,
    initializer: Initializer | InitializerConfig,
    optimizer: Optimizer | OptimizerConfig,
    compressor: Compressor | FloatCompressorConfig,
) -> Segment:
    """Return the segment of these parts, each of which may be given as its message.

    >>> CombineAsSegment(4, ZerosInitializer(), SgdOptimizer(0.1), Fp32Compressor()).dim
    4
    """
    if isinstance(initializer, InitializerConfig):
        initializer = Initializer.from_proto(initializer)
    if isinstance(optimizer, OptimizerConfig):
        optimizer = Optimizer.from_proto(optimizer)
    if isinstance(compressor, FloatCompressorConfig):
        compressor = Compressor.from_proto(compressor)
    return Segment(dim=dim_size, optimizer=optimizer, initializer=initializer, compressor=compressor)
