"""What an optimizer makes of a rule that csrc/optim declares: its defaults, its message, its wrappers."""

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, dataclass_transform

from monolith._core import native
from monolith.embedding.config.learning_rate import LearningRate, PolynomialDecay
from monolith.embedding.config.proto_fields import (
    as_float32,
    check_at_least,
    check_numbers,
    chosen_kind,
    proto_name,
    read_choice,
    resolved_values,
    write_choice,
)
from monolith.protos.optimizer_pb2 import NamedOptimizerConfig, OptimizerConfig

RULES = {rule.name: rule for rule in native.optimizer_kinds()}
"""The declaration of every rule, by its name."""

DECLARED: Any = object()
"""As the default of an argument: what the rule declares, which takes its place as the class is made."""

_WITH_MESSAGE = {member.name for member in OptimizerConfig.DESCRIPTOR.oneofs_by_name["type"].fields}
_OWN_FIELDS = ("learning_rate", "warmup_steps")
_BY_KIND: dict[str, type["Optimizer"]] = {}


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Optimizer:
    """Says how a gradient changes a segment. Use one of the classes of ``optimizers``.

    An argument that is None leaves the default of the rule in force.
    """

    kind: ClassVar[str]
    """Name of the rule in the native core, and of its member of ``OptimizerConfig`` if it has one."""

    stochastic_rounding_float16: ClassVar[bool] = False
    """Whether weights are rounded to neighbouring fp16 values after each step."""

    delay_compensation: ClassVar[float] = 0.0
    """The lambda of delay compensation; 0 is none."""

    max_gradient_norm: ClassVar[float] = 0.0
    """Length that a longer gradient is scaled to before the step; 0 clips none."""

    def __init_subclass__(cls) -> None:
        """Make the class a frozen dataclass, with the defaults that its rule declares in C++."""
        super().__init_subclass__()
        if "kind" in vars(cls):  # a wrapper stands for any rule
            _take_declaration(cls)
            _BY_KIND[cls.kind] = cls
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        check_numbers(self)
        for name in ("initial_accumulator_value", "epsilon", "warmup_steps"):
            if hasattr(self, name):
                check_at_least(self, name, 0)

    def as_proto(self) -> OptimizerConfig:
        """Return the message that describes this optimizer."""
        config = OptimizerConfig()
        _write_rule(config, self)
        return config

    @classmethod
    def from_proto(cls, config: OptimizerConfig) -> Self:
        """Return the optimizer a message describes, wrappers included; raises if it is not of this class."""
        optimizer = _read_optimizer(config)
        if not isinstance(optimizer, cls):
            raise ValueError(f"the message describes a {type(optimizer).__name__}, not a {cls.__name__}")
        return optimizer

    def hyper_parameters(self) -> dict[str, float]:
        """Return the numbers of the step by their name in C++, in its order, with defaults in force; a bool is 0 or 1.

        >>> from monolith.embedding import MomentumOptimizer
        >>> MomentumOptimizer(use_nesterov=True).hyper_parameters()
        {'weight_decay_factor': 0.0, 'use_nesterov': 1.0, 'momentum': 0.9}
        """
        given = {proto_name(field): getattr(self, field.name) for field in fields(self)}
        values = [(one.name, given.get(one.name), one.default) for one in RULES[self.kind].hyper_parameters]
        return {name: as_float32(default if value is None else value) for name, value, default in values}

    def resolved_learning_rate(self) -> float:
        """Return the learning rate, or its default where none was given; 0 for a rule that has none."""
        given = getattr(self, "learning_rate", None)
        return float(RULES[self.kind].learning_rate if given is None else given)

    def learning_rate_fn(self) -> LearningRate:
        """Return the learning rate of a table that sets none: a ramp from 0 during ``warmup_steps``, then constant."""
        rate = self.resolved_learning_rate()
        warmup_steps = int(getattr(self, "warmup_steps", None) or 0)
        return PolynomialDecay(0.0, warmup_steps, rate) if warmup_steps > 0 else rate


class _Wrapper(Optimizer):
    """An optimizer that changes what another one does; its numbers are those of the other."""

    optimizer: Optimizer

    def __post_init__(self) -> None:
        if not isinstance(self.optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: optimizer must be an Optimizer, got {self.optimizer!r}")
        # What a plain optimizer says for its class, a wrapper says for itself.
        for name in ("kind", "stochastic_rounding_float16", "delay_compensation", "max_gradient_norm"):
            object.__setattr__(self, name, getattr(self.optimizer, name))

    def hyper_parameters(self) -> dict[str, float]:
        return self.optimizer.hyper_parameters()

    def resolved_learning_rate(self) -> float:
        return self.optimizer.resolved_learning_rate()

    def learning_rate_fn(self) -> LearningRate:
        return self.optimizer.learning_rate_fn()


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


class ClippedOptimizer(_Wrapper):
    """Scales a row's summed gradient to length ``max_norm`` before the step, if it is longer (L2 norm of the segment).

    >>> from monolith.embedding import SgdOptimizer
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
    kind = chosen_kind(config)
    if kind == "dc":
        if not config.dc.HasField("optimizer"):
            raise ValueError("DcOptimizerConfig names no optimizer to compensate for; set its field optimizer")
        optimizer = DelayCompensation(_read_optimizer(config.dc.optimizer), resolved_values(config.dc)["lambda_"])
    else:
        optimizer = _read_named(config.named) if kind == "named" else read_choice(config, _BY_KIND)
    if config.max_gradient_norm:
        optimizer = ClippedOptimizer(optimizer, resolved_values(config)["max_gradient_norm"])
    return StochasticRoundingFloat16OptimizerWrapper(optimizer) if config.stochastic_rounding_float16 else optimizer


def _take_declaration(cls: type[Optimizer]) -> None:
    if cls.kind not in RULES:
        raise TypeError(f"{cls.__name__}: no rule {cls.kind!r} in the native core; CONTRIBUTING.md says how to add it")
    declared = {parameter.name: parameter for parameter in RULES[cls.kind].hyper_parameters}
    for name in [name for name, value in vars(cls).items() if value is DECLARED]:
        if name not in declared:
            raise TypeError(f"{cls.__name__}: {cls.kind} declares no {name}; it has {', '.join(declared) or 'none'}")
        setattr(cls, name, declared[name].default)
    if declared:
        lines = [f"{one.name}: {one.meaning} {one.range.capitalize()}." for one in declared.values()]
        cls.__doc__ = "\n    ".join([cls.__doc__ or "", "", "Hyper-parameters:", *lines])


def _write_rule(config: OptimizerConfig, optimizer: Optimizer) -> None:
    if optimizer.kind in _WITH_MESSAGE:
        return write_choice(config, optimizer)
    config.named.rule = optimizer.kind
    for field in fields(optimizer):
        value = getattr(optimizer, field.name)
        if value is not None and field.name in _OWN_FIELDS:
            setattr(config.named, field.name, value)
        elif value is not None:
            config.named.hyper_parameters[proto_name(field)] = value


def _read_named(message: NamedOptimizerConfig) -> Optimizer:
    if message.rule not in _BY_KIND:
        raise ValueError(f"NamedOptimizerConfig: unknown rule {message.rule!r}; choose one of {', '.join(_BY_KIND)}")
    cls = _BY_KIND[message.rule]
    given: dict[str, Any] = {name: getattr(message, name) for name in _OWN_FIELDS if message.HasField(name)}
    given |= message.hyper_parameters
    known = {proto_name(field): field for field in fields(cls)}
    if unknown := given.keys() - known.keys():
        raise ValueError(f"NamedOptimizerConfig: {message.rule} has no {min(unknown)}; it has {', '.join(known)}")
    return cls(**{known[name].name: _as_in(known[name].default, value) for name, value in given.items()})


def _as_in(default: object, value: float) -> float:
    if isinstance(default, bool):
        return bool(value)
    return as_float32(value) if isinstance(value, float) else value
