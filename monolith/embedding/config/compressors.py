"""How the floats of a segment are stored in a serving row, and what a training lookup reads."""

from dataclasses import dataclass, field
from typing import ClassVar, Self

from monolith.embedding.config.proto_fields import (
    check_at_least,
    check_numbers,
    read_choice,
    resolved_values,
    write_choice,
)
from monolith.protos.float_compressor_pb2 import FloatCompressorConfig


@dataclass(frozen=True)
class Compressor:
    """Says how a segment is stored for serving. Use one of the classes below."""

    kind: ClassVar[str]
    """Name of the encoding in the native core, and of the member of ``FloatCompressorConfig``."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        check_numbers(self)

    def as_proto(self) -> FloatCompressorConfig:
        """Return the message that describes this compressor."""
        config = FloatCompressorConfig()
        write_choice(config, self)
        return config

    @classmethod
    def from_proto(cls, config: FloatCompressorConfig) -> Self:
        """Return the compressor a message describes; raises if it is not of this class."""
        compressor = read_choice(config, _BY_KIND)
        if not isinstance(compressor, cls):
            raise ValueError(f"the message describes a {type(compressor).__name__}, not a {cls.__name__}")
        return compressor

    def parameters(self) -> dict[str, float]:
        """Return the encoding's numbers by name, with defaults in force.

        >>> FixedR8Compressor(2.0).parameters()
        {'r': 2.0}
        """
        values = resolved_values(getattr(self.as_proto(), self.kind))
        return {name: value for name, value in values.items() if name != "dim_size"}


@dataclass(frozen=True)
class Fp32Compressor(Compressor):
    """Keeps the floats as they are: 4 bytes each."""

    kind = "fp32"


@dataclass(frozen=True)
class Fp16Compressor(Compressor):
    """Stores IEEE half precision: 2 bytes each."""

    kind = "fp16"


@dataclass(frozen=True)
class Bf16Compressor(Compressor):
    """Stores bfloat16, the range of a float with 8 bits of precision: 2 bytes each."""

    kind = "bf16"


@dataclass(frozen=True)
class FixedR8Compressor(Compressor):
    """Stores 8-bit steps of ``fixed_range`` / 128; training lookups read the rounded values too."""

    fixed_range: float = field(default=1.0, metadata={"proto": "r"})
    kind = "fixed_r8"

    def __post_init__(self) -> None:
        """Reject an empty range."""
        super().__post_init__()
        if self.fixed_range <= 0:
            raise ValueError(f"FixedR8Compressor: fixed_range must be positive, got {self.fixed_range}")


@dataclass(frozen=True)
class OneBitCompressor(Compressor):
    """Stores the sign alone; training lookups read ``amplitude`` * tanh(scale * x), sharper as training goes on.

    The scale starts at ``init_scale`` and is refreshed every ``step_size`` steps until it reaches ``max_scale``.
    """

    step_size: int = 200
    amplitude: float = 0.05
    init_scale: float | None = None
    max_scale: float | None = None
    kind = "one_bit"

    def __post_init__(self) -> None:
        """Reject a schedule that never runs."""
        super().__post_init__()
        check_at_least(self, "step_size", 1)


_BY_KIND: dict[str, type[Compressor]] = {
    cls.kind: cls for cls in (Fp32Compressor, Fp16Compressor, Bf16Compressor, FixedR8Compressor, OneBitCompressor)
}
