"""Optimizers, initializers and compressors: their messages, defaults and numbers for the native core."""

import math
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from monolith.embedding import entry
from monolith.protos.float_compressor_pb2 import FloatCompressorConfig
from monolith.protos.initializer_pb2 import InitializerConfig
from monolith.protos.optimizer_pb2 import OptimizerConfig

# (optimizer with only defaults, kind, learning rate, hyper-parameters)
DEFAULTS: list[tuple[entry.Optimizer, str, float, dict[str, float]]] = [
    (entry.SgdOptimizer(), "sgd", 0.01, {}),
    (entry.AdagradOptimizer(), "adagrad", 0.001, {"initial_accumulator_value": 0.1, "weight_decay_factor": 0.0}),
    (
        entry.RowwiseAdagradOptimizer(),
        "rowwise_adagrad",
        0.001,
        {"initial_accumulator_value": 0.0, "weight_decay_factor": 0.0, "epsilon": 1e-8},
    ),
    (
        entry.AdadeltaOptimizer(),
        "adadelta",
        0.01,
        {"weight_decay_factor": 0.0, "averaging_ratio": 0.9, "epsilon": 0.01},
    ),
    (
        entry.AdamOptimizer(),
        "adam",
        0.01,
        {"beta1": 0.9, "beta2": 0.99, "weight_decay_factor": 0.0, "use_nesterov": 0.0, "epsilon": 0.01},
    ),
    (
        entry.AmsgradOptimizer(),
        "amsgrad",
        0.01,
        {"beta1": 0.9, "beta2": 0.99, "weight_decay_factor": 0.0, "use_nesterov": 0.0, "epsilon": 0.01},
    ),
    (
        entry.AdamomOptimizer(),
        "adamom",
        5e-6,
        {"ada_decay": 0.9999, "mom_decay": 0.99, "epsilon": 1e-6, "weight_decay_factor": 0.0},
    ),
    (entry.BatchSoftmaxOptimizer(), "batch_softmax", 0.1, {}),
    (
        entry.MomentumOptimizer(),
        "momentum",
        0.01,
        {"weight_decay_factor": 0.0, "use_nesterov": 0.0, "momentum": 0.9},
    ),
    (entry.MovingAverageOptimizer(), "moving_average", 0.0, {"momentum": 0.9}),
    (entry.RmspropOptimizer(), "rmsprop", 0.01, {"weight_decay_factor": 0.0, "momentum": 0.9}),
    (entry.RmspropV2Optimizer(), "rmspropv2", 0.01, {"weight_decay_factor": 0.0, "momentum": 0.9}),
    (
        entry.FtrlOptimizer(),
        "ftrl",
        0.01,
        {"beta": 0.0, "initial_accumulator_value": 0.1}
        | {"l1_regularization_strength": 0.0, "l2_regularization_strength": 0.0},
    ),
    (
        entry.FTRLWithGroupSparsityOptimizer(),
        "group_ftrl",
        0.01,
        {"beta": 1.0, "initial_accumulator_value": 0.0}
        | {"l1_regularization_strength": 0.0, "l2_regularization_strength": 0.0},
    ),
    (
        entry.AdaGradWithGroupLassoOptimizer(),
        "group_adagrad",
        0.01,
        {"beta": 0.0, "initial_accumulator_value": 0.1}
        | {"l2_regularization_strength": 0.0, "weight_decay_factor": 0.0},
    ),
    (
        entry.DynamicWdAdagradOptimizer(),
        "dynamic_wd_adagrad",
        0.001,
        {"initial_accumulator_value": 0.1, "weight_decay_factor": 0.0, "decouple_weight_decay": 1.0}
        | {"enable_dynamic_wd": 1.0, "dynamic_wd_temperature": 1.0, "flip_direction": 1.0},
    ),
]
OPTIMIZERS: list[entry.Optimizer] = [
    *(row[0] for row in DEFAULTS),
    entry.SgdOptimizer(0.3),
    entry.AdagradOptimizer(0.1, 0.5, 2, 3, 0.25),
    entry.AdamOptimizer(0.1, 0.5, 0.25, True, 0.125, True, 1e-7, 5),
    entry.FtrlOptimizer(0.1, 0.2, 0.3, 4, 0.5, 0.6),
    entry.AdaGradWithGroupLassoOptimizer(0.1, 0.2, 0.3, 0.4, 0.5, 6),
    entry.DynamicWdAdagradOptimizer(decouple_weight_decay=False, dynamic_wd_temperature=2.5),
    entry.StochasticRoundingFloat16OptimizerWrapper(entry.AdagradOptimizer(0.1)),
    entry.DelayCompensation(entry.SgdOptimizer(0.1), 0.5),
    entry.StochasticRoundingFloat16OptimizerWrapper(entry.DelayCompensation(entry.AdamOptimizer(0.1), 0.5)),
]


@pytest.mark.parametrize(("optimizer", "kind", "rate", "hyper_parameters"), DEFAULTS, ids=lambda v: str(v)[:30])
def test_optimizer_defaults(
    optimizer: entry.Optimizer, kind: str, rate: float, hyper_parameters: dict[str, float]
) -> None:
    assert type(optimizer).kind == kind
    assert optimizer.as_proto().WhichOneof("type") == kind
    assert optimizer.resolved_learning_rate() == rate
    assert optimizer.hyper_parameters() == hyper_parameters
    assert not optimizer.stochastic_rounding_float16
    assert optimizer.delay_compensation == 0.0


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_optimizer_survives_its_message(optimizer: entry.Optimizer) -> None:
    config = OptimizerConfig.FromString(optimizer.as_proto().SerializeToString())
    assert entry.Optimizer.from_proto(config) == optimizer
    assert type(optimizer).from_proto(config) == optimizer


def test_none_leaves_the_field_unset() -> None:
    config = entry.AdagradOptimizer(initial_accumulator_value=0.5).as_proto().adagrad
    assert not config.HasField("learning_rate")
    assert config.initial_accumulator_value == 0.5
    assert config.HasField("warmup_steps")


def test_regularization_goes_to_its_field() -> None:
    config = entry.FtrlOptimizer(l1_regularization=0.5, l2_regularization=0.25).as_proto().ftrl
    assert (config.l1_regularization_strength, config.l2_regularization_strength) == (0.5, 0.25)


def test_a_bare_message_means_the_defaults_of_the_message() -> None:
    """Two classes have other defaults than their message; reading an empty message must not bring them in."""
    optimizer = OptimizerConfig()
    optimizer.dynamic_wd_adagrad.SetInParent()
    read = entry.DynamicWdAdagradOptimizer.from_proto(optimizer)
    assert (read.decouple_weight_decay, read.enable_dynamic_wd, read.flip_direction) == (False, False, False)
    compressor = FloatCompressorConfig()
    compressor.one_bit.SetInParent()
    assert entry.OneBitCompressor.from_proto(compressor).amplitude == 0.1
    assert entry.OneBitCompressor().parameters()["amplitude"] == 0.05


def test_wrappers_speak_for_the_wrapped_optimizer() -> None:
    inner = entry.AdagradOptimizer(0.1, warmup_steps=4)
    rounded = entry.StochasticRoundingFloat16OptimizerWrapper(inner)
    assert rounded.as_proto().stochastic_rounding_float16
    assert rounded.as_proto().adagrad == inner.as_proto().adagrad
    both = entry.DelayCompensation(rounded, lambda_=0.25)
    assert (both.kind, both.stochastic_rounding_float16, both.delay_compensation) == ("adagrad", True, 0.25)
    assert both.hyper_parameters() == inner.hyper_parameters()
    assert both.resolved_learning_rate() == 0.1
    assert both.learning_rate_fn() == entry.PolynomialDecay(0.0, 4, 0.1)
    assert both.as_proto().dc.lambda_ == 0.25


def test_warmup_is_a_ramp_of_the_learning_rate() -> None:
    rate = entry.MomentumOptimizer(0.5, warmup_steps=4).learning_rate_fn()
    assert callable(rate)
    assert [rate(step) for step in (0, 1, 4, 100)] == [0.0, 0.125, 0.5, 0.5]
    assert entry.MomentumOptimizer(0.5).learning_rate_fn() == 0.5


INITIALIZERS: list[tuple[entry.Initializer, str, tuple[float, float]]] = [
    (entry.ZerosInitializer(), "zeros", (0.0, 0.0)),
    (entry.OnesInitializer(), "ones", (0.0, 0.0)),
    (entry.ConstantsInitializer(1.5), "constants", (1.5, 0.0)),
    (entry.RandomUniformInitializer(), "random_uniform", (-0.05, 0.05)),
    (entry.RandomUniformInitializer(-1, 2), "random_uniform", (-1.0, 2.0)),
    (entry.RandomUniformInitializer(maxval=0.5), "random_uniform", (-0.05, 0.5)),
    (entry.RandomNormalInitializer(), "random_normal", (0.0, 0.05)),
    (entry.RandomNormalInitializer(0.5, 2.0), "random_normal", (0.5, 2.0)),
    (entry.BatchSoftmaxInitializer(30), "constants", (30.0, 0.0)),
]


@pytest.mark.parametrize(("initializer", "kind", "parameters"), INITIALIZERS, ids=str)
def test_initializers(initializer: entry.Initializer, kind: str, parameters: tuple[float, float]) -> None:
    config = InitializerConfig.FromString(initializer.as_proto().SerializeToString())
    assert initializer.kind == kind == config.WhichOneof("type")
    assert initializer.parameters() == parameters
    assert type(initializer).from_proto(config) == initializer
    assert entry.Initializer.from_proto(config).parameters() == parameters


COMPRESSORS: list[tuple[entry.Compressor, str, dict[str, float]]] = [
    (entry.Fp32Compressor(), "fp32", {}),
    (entry.Fp16Compressor(), "fp16", {}),
    (entry.Bf16Compressor(), "bf16", {}),
    (entry.FixedR8Compressor(), "fixed_r8", {"r": 1.0}),
    (entry.FixedR8Compressor(5.0), "fixed_r8", {"r": 5.0}),
    (
        entry.OneBitCompressor(),
        "one_bit",
        {"step_size": 200, "init_scale": 1.0, "max_scale": 10000.0, "amplitude": 0.05},
    ),
    (
        entry.OneBitCompressor(5, 1.0, init_scale=2.0, max_scale=4.0),
        "one_bit",
        {"step_size": 5, "init_scale": 2.0, "max_scale": 4.0, "amplitude": 1.0},
    ),
]


@pytest.mark.parametrize(("compressor", "kind", "parameters"), COMPRESSORS, ids=str)
def test_compressors(compressor: entry.Compressor, kind: str, parameters: dict[str, float]) -> None:
    config = FloatCompressorConfig.FromString(compressor.as_proto().SerializeToString())
    assert compressor.kind == kind == config.WhichOneof("type")
    assert compressor.parameters() == parameters
    assert entry.Compressor.from_proto(config) == compressor


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: entry.BatchSoftmaxInitializer(0.5), "init_step_interval must be at least 1, got 0.5"),
        (lambda: entry.RandomUniformInitializer(1.0, 0.0), "minval must not exceed maxval"),
        (lambda: entry.RandomNormalInitializer(0.0, -1.0), "stddev must be at least 0"),
        (lambda: entry.FixedR8Compressor(0.0), "fixed_range must be positive"),
        (lambda: entry.OneBitCompressor(step_size=0), "step_size must be at least 1"),
        (
            lambda: entry.AdagradOptimizer(initial_accumulator_value=-0.1),
            "initial_accumulator_value must be at least 0",
        ),
        (lambda: entry.SgdOptimizer(math.nan), "SgdOptimizer: learning_rate must be finite"),
        (lambda: entry.DelayCompensation(entry.SgdOptimizer(), math.inf), "lambda_ must be finite"),
        (
            lambda: entry.DelayCompensation(entry.DelayCompensation(entry.SgdOptimizer(), 0.1), 0.1),
            "wrap it once",
        ),
        (lambda: entry.Optimizer.from_proto(OptimizerConfig()), "OptimizerConfig must be set type"),
        (lambda: entry.Initializer.from_proto(InitializerConfig()), "InitializerConfig must be set type"),
        (lambda: entry.Compressor.from_proto(FloatCompressorConfig()), "FloatCompressorConfig must be set type"),
        (
            lambda: entry.AdamOptimizer.from_proto(entry.SgdOptimizer().as_proto()),
            "SgdOptimizer, not a AdamOptimizer",
        ),
        (lambda: entry.ZerosInitializer.from_proto(entry.OnesInitializer().as_proto()), "not a ZerosInitializer"),
        (lambda: entry.Fp16Compressor.from_proto(entry.Fp32Compressor().as_proto()), "not a Fp16Compressor"),
    ],
)
def test_senseless_values_are_refused(make: Any, complaint: str) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=complaint):
        make()


def test_delay_compensation_without_an_optimizer_is_refused() -> None:
    config = OptimizerConfig()
    config.dc.lambda_ = 0.5
    with pytest.raises(ValueError, match="names no optimizer"):
        entry.Optimizer.from_proto(config)


def test_configs_are_frozen_and_typed() -> None:
    with pytest.raises(FrozenInstanceError):
        entry.SgdOptimizer().learning_rate = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError, match="learning_rate must be a number"):
        entry.SgdOptimizer("0.1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="optimizer must be an Optimizer"):
        entry.DelayCompensation("sgd", 0.1)  # type: ignore[arg-type]
