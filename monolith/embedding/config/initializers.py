"""First values of a new row."""

from dataclasses import dataclass, field
from typing import ClassVar, Self

from monolith.embedding.config.proto_fields import (
    check_at_least,
    check_numbers,
    read_choice,
    resolved_values,
    write_choice,
)
from monolith.protos.initializer_pb2 import InitializerConfig


@dataclass(frozen=True)
class Initializer:
    """Says what a segment of a new row holds. Use one of the classes below."""

    kind: ClassVar[str]
    """Name of the rule in the native core, and of the member of ``InitializerConfig``."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        check_numbers(self)

    def as_proto(self) -> InitializerConfig:
        """Return the message that describes this initializer."""
        config = InitializerConfig()
        write_choice(config, self)
        return config

    @classmethod
    def from_proto(cls, config: InitializerConfig) -> Self:
        """Return the initializer a message describes; raises if it is not of this class."""
        classes = dict(_BY_KIND)
        if cls is not Initializer:
            # More than one class may describe itself as a constant.
            classes[cls.kind] = cls
        initializer = read_choice(config, classes)
        if not isinstance(initializer, cls):
            raise ValueError(f"the message describes a {type(initializer).__name__}, not a {cls.__name__}")
        return initializer

    def parameters(self) -> tuple[float, float]:
        """Return the rule's two numbers, with defaults in force; what it does not use is 0.

        Constants: (value, 0). Random uniform: (minval, maxval). Random normal: (mean, stddev).
        """
        values = resolved_values(getattr(self.as_proto(), self.kind))
        numbers = [float(value) for name, value in values.items() if name != "dim_size"]
        a, b, *_ = (*numbers, 0.0, 0.0)
        return a, b


@dataclass(frozen=True)
class ZerosInitializer(Initializer):
    """Starts at 0."""

    kind = "zeros"


@dataclass(frozen=True)
class OnesInitializer(Initializer):
    """Starts at 1."""

    kind = "ones"


@dataclass(frozen=True)
class ConstantsInitializer(Initializer):
    """Starts at one given value."""

    constant: float
    kind = "constants"


@dataclass(frozen=True)
class RandomUniformInitializer(Initializer):
    """Starts evenly spread over [minval, maxval); the range is [-0.05, 0.05) unless given."""

    minval: float | None = None
    maxval: float | None = None
    kind = "random_uniform"

    def __post_init__(self) -> None:
        """Reject an empty range."""
        super().__post_init__()
        low, high = self.parameters()
        if low > high:
            raise ValueError(f"RandomUniformInitializer: minval must not exceed maxval, got [{low}, {high})")


@dataclass(frozen=True)
class RandomNormalInitializer(Initializer):
    """Starts normally distributed."""

    mean: float = 0.0
    stddev: float = 0.05
    kind = "random_normal"

    def __post_init__(self) -> None:
        """Reject a negative deviation."""
        super().__post_init__()
        check_at_least(self, "stddev", 0)


@dataclass(frozen=True)
class BatchSoftmaxInitializer(Initializer):
    """Starts at the number of steps assumed between two sightings of an id; goes with ``BatchSoftmaxOptimizer``."""

    init_step_interval: float = field(metadata={"proto": "constant"})
    kind = "constants"

    def __post_init__(self) -> None:
        """Reject an interval below one step."""
        super().__post_init__()
        check_at_least(self, "init_step_interval", 1)


_BY_KIND: dict[str, type[Initializer]] = {
    cls.kind: cls
    for cls in (
        ZerosInitializer,
        OnesInitializer,
        ConstantsInitializer,
        RandomUniformInitializer,
        RandomNormalInitializer,
    )
}
