"""How a gradient changes a segment of a row."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Self

from monolith.embedding.config.learning_rate import LearningRate, PolynomialDecay
from monolith.embedding.config.proto_fields import (
    check_at_least,
    check_numbers,
    chosen_kind,
    read_choice,
    resolved_values,
    write_choice,
)
from monolith.protos.optimizer_pb2 import OptimizerConfig

# Not for the step of a row: the learning rate comes with each update, a warm-up is part of the learning rate, and the
# other two are carried for the original's sake.
_NOT_HYPER_PARAMETERS = {
    "dim_size",
    "learning_rate",
    "warmup_steps",
    "hessian_compression_times",
    "use_beta1_warmup",
}


@dataclass(frozen=True)
class Optimizer:
    """Says how a gradient changes a segment. Use one of the classes below.

    An argument that is None leaves the default of the message in force.
    """

    kind: ClassVar[str]
    """Name of the rule in the native core, and of the member of ``OptimizerConfig``."""

    stochastic_rounding_float16: ClassVar[bool] = False
    """Whether weights are rounded to neighbouring fp16 values after each step."""

    delay_compensation: ClassVar[float] = 0.0
    """The lambda of delay compensation; 0 is none."""

    max_gradient_norm: ClassVar[float] = 0.0
    """Length that a longer gradient is scaled to before the step; 0 clips none."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        check_numbers(self)
        for name in ("initial_accumulator_value", "epsilon", "warmup_steps"):
            if hasattr(self, name):
                check_at_least(self, name, 0)

    def as_proto(self) -> OptimizerConfig:
        """Return the message that describes this optimizer."""
        config = OptimizerConfig()
        write_choice(config, self)
        return config

    @classmethod
    def from_proto(cls, config: OptimizerConfig) -> Self:
        """Return the optimizer a message describes, wrappers included; raises if it is not of this class."""
        optimizer = _read_optimizer(config)
        if not isinstance(optimizer, cls):
            raise ValueError(f"the message describes a {type(optimizer).__name__}, not a {cls.__name__}")
        return optimizer

    def hyper_parameters(self) -> dict[str, float]:
        """Return the numbers the step uses by the name of their field, with defaults in force; a bool is 0 or 1.

        >>> MomentumOptimizer(use_nesterov=True).hyper_parameters()
        {'weight_decay_factor': 0.0, 'use_nesterov': 1.0, 'momentum': 0.9}
        """
        return {name: float(value) for name, value in self._resolved().items() if name not in _NOT_HYPER_PARAMETERS}

    def resolved_learning_rate(self) -> float:
        """Return the learning rate, or its default where none was given; 0 for a rule that has none."""
        given = getattr(self, "learning_rate", None)
        return float(self._resolved().get("learning_rate", 0.0) if given is None else given)

    def learning_rate_fn(self) -> LearningRate:
        """Return the learning rate of a table that sets none: a ramp from 0 during ``warmup_steps``, then constant."""
        rate = self.resolved_learning_rate()
        warmup_steps = int(self._resolved().get("warmup_steps", 0))
        return PolynomialDecay(0.0, warmup_steps, rate) if warmup_steps > 0 else rate

    def _resolved(self) -> dict[str, float]:
        return resolved_values(getattr(self.as_proto(), self.kind))


@dataclass(frozen=True)
class SgdOptimizer(Optimizer):
    """Plain gradient descent."""

    learning_rate: float | None = None
    warmup_steps: int | None = None
    kind = "sgd"


@dataclass(frozen=True)
class AdagradOptimizer(Optimizer):
    """Divides each step by the root of the summed squared gradients."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    hessian_compression_times: int = 1
    warmup_steps: int = 0
    weight_decay_factor: float = 0.0
    kind = "adagrad"


@dataclass(frozen=True)
class RowwiseAdagradOptimizer(Optimizer):
    """Adagrad that keeps one float per segment instead of one per weight."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    epsilon: float = 1e-8
    weight_decay_factor: float = 0.0
    kind = "rowwise_adagrad"


@dataclass(frozen=True)
class DynamicWdAdagradOptimizer(Optimizer):
    """Adagrad whose weight decay may be kept apart from the gradient and may change while training."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    hessian_compression_times: int = 1
    warmup_steps: int = 0
    weight_decay_factor: float = 0.0
    decouple_weight_decay: bool = True
    enable_dynamic_wd: bool = True
    flip_direction: bool = True
    dynamic_wd_temperature: float = 1.0
    kind = "dynamic_wd_adagrad"


@dataclass(frozen=True)
class AdadeltaOptimizer(Optimizer):
    """Scales each step by the ratio of past steps to past gradients."""

    learning_rate: float | None = None
    weight_decay_factor: float = 0.0
    averaging_ratio: float = 0.9
    epsilon: float = 0.01
    warmup_steps: int = 0
    kind = "adadelta"


@dataclass(frozen=True)
class AdamOptimizer(Optimizer):
    """Adam, bias-corrected by the number of updates of each row."""

    learning_rate: float | None = None
    beta1: float = 0.9
    beta2: float = 0.99
    use_beta1_warmup: bool = False
    weight_decay_factor: float = 0.0
    use_nesterov: bool = False
    epsilon: float = 0.01
    warmup_steps: int = 0
    kind = "adam"


@dataclass(frozen=True)
class AmsgradOptimizer(Optimizer):
    """Adam whose second moment never shrinks."""

    learning_rate: float | None = None
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay_factor: float = 0.0
    use_nesterov: bool = False
    epsilon: float = 0.01
    warmup_steps: int = 0
    kind = "amsgrad"


@dataclass(frozen=True)
class AdamomOptimizer(Optimizer):
    """Momentum divided by the root of the decayed mean of squared gradients."""

    learning_rate: float | None = None
    ada_decay: float = 0.9999
    mom_decay: float = 0.99
    epsilon: float = 1e-6
    weight_decay_factor: float = 0.0
    kind = "adamom"


@dataclass(frozen=True)
class BatchSoftmaxOptimizer(Optimizer):
    """Tracks the mean number of steps between two sightings of an id; the segment has one float."""

    learning_rate: float | None = None
    kind = "batch_softmax"


@dataclass(frozen=True)
class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum."""

    learning_rate: float | None = None
    weight_decay_factor: float = 0.0
    use_nesterov: bool = False
    momentum: float = 0.9
    warmup_steps: int = 0
    kind = "momentum"


@dataclass(frozen=True)
class MovingAverageOptimizer(Optimizer):
    """Keeps a moving average of what arrives as "gradient"; there is no learning rate."""

    momentum: float = 0.9
    kind = "moving_average"


@dataclass(frozen=True)
class RmspropOptimizer(Optimizer):
    """Divides each step by 1 + the root of the decayed mean of squared gradients."""

    learning_rate: float | None = None
    weight_decay_factor: float = 0.0
    momentum: float = 0.9
    kind = "rmsprop"


@dataclass(frozen=True)
class RmspropV2Optimizer(Optimizer):
    """Divides each step by 1 + the root of the decayed sum of squared gradients."""

    learning_rate: float | None = None
    weight_decay_factor: float = 0.0
    momentum: float = 0.9
    kind = "rmspropv2"


@dataclass(frozen=True)
class FtrlOptimizer(Optimizer):
    """Follow the regularized leader: weights with little evidence are exactly 0."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    beta: float | None = None
    warmup_steps: int = 0
    l1_regularization: float | None = field(default=None, metadata={"proto": "l1_regularization_strength"})
    l2_regularization: float | None = field(default=None, metadata={"proto": "l2_regularization_strength"})
    kind = "ftrl"


@dataclass(frozen=True)
class FTRLWithGroupSparsityOptimizer(Optimizer):
    """FTRL that sets a whole segment to 0 or none of it."""

    learning_rate: float | None = None
    initial_accumulator_value: float | None = None
    beta: float | None = None
    warmup_steps: int = 0
    l1_regularization: float | None = field(default=None, metadata={"proto": "l1_regularization_strength"})
    l2_regularization: float | None = field(default=None, metadata={"proto": "l2_regularization_strength"})
    kind = "group_ftrl"


@dataclass(frozen=True)
class AdaGradWithGroupLassoOptimizer(Optimizer):
    """Adagrad that sets a whole segment to 0 or none of it."""

    learning_rate: float | None = None
    beta: float | None = None
    initial_accumulator_value: float | None = None
    l2_regularization: float | None = field(default=None, metadata={"proto": "l2_regularization_strength"})
    weight_decay_factor: float = 0.0
    warmup_steps: int = 0
    kind = "group_adagrad"


@dataclass(frozen=True)
class _Wrapper(Optimizer):
    """An optimizer that changes what another one does; its numbers are those of the other."""

    optimizer: Optimizer

    def __post_init__(self) -> None:
        if not isinstance(self.optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: optimizer must be an Optimizer, got {self.optimizer!r}")
        # What a plain optimizer says for its class, a wrapper says for itself.
        for name in ("kind", "stochastic_rounding_float16", "delay_compensation", "max_gradient_norm"):
            object.__setattr__(self, name, getattr(self.optimizer, name))

    def resolved_learning_rate(self) -> float:
        return self.optimizer.resolved_learning_rate()

    def _resolved(self) -> dict[str, float]:
        return self.optimizer._resolved()


@dataclass(frozen=True)
class StochasticRoundingFloat16OptimizerWrapper(_Wrapper):
    """Rounds the weights to neighbouring fp16 values after each step, up or down at random so that the mean holds."""

    def __post_init__(self) -> None:
        """Take over what the wrapped optimizer says of itself."""
        super().__post_init__()
        object.__setattr__(self, "stochastic_rounding_float16", True)

    def as_proto(self) -> OptimizerConfig:
        """Return the message of the wrapped optimizer, marked for rounding."""
        config = self.optimizer.as_proto()
        config.stochastic_rounding_float16 = True
        return config


@dataclass(frozen=True)
class ClippedOptimizer(_Wrapper):
    """Scales a row's summed gradient to length ``max_norm`` before the step, if it is longer (L2 norm of the segment).

    >>> ClippedOptimizer(SgdOptimizer(), max_norm=10.0).max_gradient_norm
    10.0
    """

    max_norm: float

    def __post_init__(self) -> None:
        """Take over what the wrapped optimizer says of itself."""
        super().__post_init__()
        if self.max_gradient_norm:
            raise ValueError("ClippedOptimizer: the optimizer clips already; wrap it once")
        if not (math.isfinite(self.max_norm) and self.max_norm > 0):
            raise ValueError(f"ClippedOptimizer: max_norm must be more than 0 and finite, got {self.max_norm}")
        object.__setattr__(self, "max_gradient_norm", float(self.max_norm))

    def as_proto(self) -> OptimizerConfig:
        """Return the message of the wrapped optimizer with the length."""
        config = self.optimizer.as_proto()
        config.max_gradient_norm = self.max_norm
        return config


@dataclass(frozen=True)
class DelayCompensation(_Wrapper):
    """Corrects gradients that were computed from older weights: g + lambda * g² * (weight now - weight then)."""

    lambda_: float

    def __post_init__(self) -> None:
        """Take over what the wrapped optimizer says of itself."""
        super().__post_init__()
        if self.delay_compensation:
            raise ValueError("DelayCompensation: the optimizer has delay compensation already; wrap it once")
        if not math.isfinite(self.lambda_):
            raise ValueError(f"DelayCompensation: lambda_ must be finite, got {self.lambda_}")
        object.__setattr__(self, "delay_compensation", float(self.lambda_))

    def as_proto(self) -> OptimizerConfig:
        """Return a ``dc`` message that holds the wrapped optimizer."""
        config = OptimizerConfig()
        config.dc.lambda_ = self.lambda_
        config.dc.optimizer.CopyFrom(self.optimizer.as_proto())
        return config


def _read_optimizer(config: OptimizerConfig) -> Optimizer:
    optimizer: Optimizer
    if chosen_kind(config) == "dc":
        if not config.dc.HasField("optimizer"):
            raise ValueError("DcOptimizerConfig names no optimizer to compensate for; set its field optimizer")
        optimizer = DelayCompensation(_read_optimizer(config.dc.optimizer), resolved_values(config.dc)["lambda_"])
    else:
        optimizer = read_choice(config, _BY_KIND)
    if config.max_gradient_norm:
        optimizer = ClippedOptimizer(optimizer, resolved_values(config)["max_gradient_norm"])
    return StochasticRoundingFloat16OptimizerWrapper(optimizer) if config.stochastic_rounding_float16 else optimizer


_BY_KIND: dict[str, type[Optimizer]] = {
    cls.kind: cls
    for cls in (
        SgdOptimizer,
        AdagradOptimizer,
        RowwiseAdagradOptimizer,
        DynamicWdAdagradOptimizer,
        AdadeltaOptimizer,
        AdamOptimizer,
        AmsgradOptimizer,
        AdamomOptimizer,
        BatchSoftmaxOptimizer,
        MomentumOptimizer,
        MovingAverageOptimizer,
        RmspropOptimizer,
        RmspropV2Optimizer,
        FtrlOptimizer,
        FTRLWithGroupSparsityOptimizer,
        AdaGradWithGroupLassoOptimizer,
    )
}
