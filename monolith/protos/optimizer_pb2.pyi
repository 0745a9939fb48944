# ruff: noqa
# fmt: off
# mypy: ignore-errors
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SgdOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "warmup_steps")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    warmup_steps: int
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class AdagradOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "initial_accumulator_value", "hessian_compression_times", "weight_decay_factor", "warmup_steps")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCUMULATOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    HESSIAN_COMPRESSION_TIMES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    initial_accumulator_value: float
    hessian_compression_times: int
    weight_decay_factor: float
    warmup_steps: int
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., initial_accumulator_value: _Optional[float] = ..., hessian_compression_times: _Optional[int] = ..., weight_decay_factor: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class DynamicWdAdagradOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "initial_accumulator_value", "hessian_compression_times", "weight_decay_factor", "warmup_steps", "decouple_weight_decay", "enable_dynamic_wd", "dynamic_wd_temperature", "flip_direction")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCUMULATOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    HESSIAN_COMPRESSION_TIMES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    DECOUPLE_WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    ENABLE_DYNAMIC_WD_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_WD_TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    FLIP_DIRECTION_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    initial_accumulator_value: float
    hessian_compression_times: int
    weight_decay_factor: float
    warmup_steps: int
    decouple_weight_decay: bool
    enable_dynamic_wd: bool
    dynamic_wd_temperature: float
    flip_direction: bool
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., initial_accumulator_value: _Optional[float] = ..., hessian_compression_times: _Optional[int] = ..., weight_decay_factor: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., decouple_weight_decay: _Optional[bool] = ..., enable_dynamic_wd: _Optional[bool] = ..., dynamic_wd_temperature: _Optional[float] = ..., flip_direction: _Optional[bool] = ...) -> None: ...

class RowwiseAdagradOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "initial_accumulator_value", "epsilon", "weight_decay_factor")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCUMULATOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    initial_accumulator_value: float
    epsilon: float
    weight_decay_factor: float
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., initial_accumulator_value: _Optional[float] = ..., epsilon: _Optional[float] = ..., weight_decay_factor: _Optional[float] = ...) -> None: ...

class FtrlOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "beta", "initial_accumulator_value", "l1_regularization_strength", "l2_regularization_strength", "warmup_steps")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCUMULATOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    L1_REGULARIZATION_STRENGTH_FIELD_NUMBER: _ClassVar[int]
    L2_REGULARIZATION_STRENGTH_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    beta: float
    initial_accumulator_value: float
    l1_regularization_strength: float
    l2_regularization_strength: float
    warmup_steps: int
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., beta: _Optional[float] = ..., initial_accumulator_value: _Optional[float] = ..., l1_regularization_strength: _Optional[float] = ..., l2_regularization_strength: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class GroupFtrlOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "beta", "initial_accumulator_value", "l1_regularization_strength", "l2_regularization_strength", "warmup_steps")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCUMULATOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    L1_REGULARIZATION_STRENGTH_FIELD_NUMBER: _ClassVar[int]
    L2_REGULARIZATION_STRENGTH_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    beta: float
    initial_accumulator_value: float
    l1_regularization_strength: float
    l2_regularization_strength: float
    warmup_steps: int
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., beta: _Optional[float] = ..., initial_accumulator_value: _Optional[float] = ..., l1_regularization_strength: _Optional[float] = ..., l2_regularization_strength: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class GroupAdaGradOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "beta", "initial_accumulator_value", "l2_regularization_strength", "weight_decay_factor", "warmup_steps")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    INITIAL_ACCUMULATOR_VALUE_FIELD_NUMBER: _ClassVar[int]
    L2_REGULARIZATION_STRENGTH_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    beta: float
    initial_accumulator_value: float
    l2_regularization_strength: float
    weight_decay_factor: float
    warmup_steps: int
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., beta: _Optional[float] = ..., initial_accumulator_value: _Optional[float] = ..., l2_regularization_strength: _Optional[float] = ..., weight_decay_factor: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class AdadeltaOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "weight_decay_factor", "averaging_ratio", "epsilon", "warmup_steps")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    AVERAGING_RATIO_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    weight_decay_factor: float
    averaging_ratio: float
    epsilon: float
    warmup_steps: int
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., weight_decay_factor: _Optional[float] = ..., averaging_ratio: _Optional[float] = ..., epsilon: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class AdamOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "beta1", "beta2", "use_beta1_warmup", "weight_decay_factor", "use_nesterov", "epsilon", "warmup_steps")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    BETA1_FIELD_NUMBER: _ClassVar[int]
    BETA2_FIELD_NUMBER: _ClassVar[int]
    USE_BETA1_WARMUP_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    USE_NESTEROV_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    beta1: float
    beta2: float
    use_beta1_warmup: bool
    weight_decay_factor: float
    use_nesterov: bool
    epsilon: float
    warmup_steps: int
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., beta1: _Optional[float] = ..., beta2: _Optional[float] = ..., use_beta1_warmup: _Optional[bool] = ..., weight_decay_factor: _Optional[float] = ..., use_nesterov: _Optional[bool] = ..., epsilon: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class AmsgradOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "beta1", "beta2", "weight_decay_factor", "use_nesterov", "epsilon", "warmup_steps")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    BETA1_FIELD_NUMBER: _ClassVar[int]
    BETA2_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    USE_NESTEROV_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    beta1: float
    beta2: float
    weight_decay_factor: float
    use_nesterov: bool
    epsilon: float
    warmup_steps: int
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., beta1: _Optional[float] = ..., beta2: _Optional[float] = ..., weight_decay_factor: _Optional[float] = ..., use_nesterov: _Optional[bool] = ..., epsilon: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class AdamomOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "ada_decay", "mom_decay", "epsilon", "weight_decay_factor")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    ADA_DECAY_FIELD_NUMBER: _ClassVar[int]
    MOM_DECAY_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    ada_decay: float
    mom_decay: float
    epsilon: float
    weight_decay_factor: float
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., ada_decay: _Optional[float] = ..., mom_decay: _Optional[float] = ..., epsilon: _Optional[float] = ..., weight_decay_factor: _Optional[float] = ...) -> None: ...

class MomentumOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "weight_decay_factor", "use_nesterov", "momentum", "warmup_steps")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    USE_NESTEROV_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    weight_decay_factor: float
    use_nesterov: bool
    momentum: float
    warmup_steps: int
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., weight_decay_factor: _Optional[float] = ..., use_nesterov: _Optional[bool] = ..., momentum: _Optional[float] = ..., warmup_steps: _Optional[int] = ...) -> None: ...

class MovingAverageOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "momentum")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    momentum: float
    def __init__(self, dim_size: _Optional[int] = ..., momentum: _Optional[float] = ...) -> None: ...

class RmspropOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "weight_decay_factor", "momentum")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    weight_decay_factor: float
    momentum: float
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., weight_decay_factor: _Optional[float] = ..., momentum: _Optional[float] = ...) -> None: ...

class RmspropV2OptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate", "weight_decay_factor", "momentum")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FACTOR_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    weight_decay_factor: float
    momentum: float
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., weight_decay_factor: _Optional[float] = ..., momentum: _Optional[float] = ...) -> None: ...

class BatchSoftmaxOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "learning_rate")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    learning_rate: float
    def __init__(self, dim_size: _Optional[int] = ..., learning_rate: _Optional[float] = ...) -> None: ...

class DcOptimizerConfig(_message.Message):
    __slots__ = ("dim_size", "lambda_", "optimizer")
    DIM_SIZE_FIELD_NUMBER: _ClassVar[int]
    LAMBDA__FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    dim_size: int
    lambda_: float
    optimizer: OptimizerConfig
    def __init__(self, dim_size: _Optional[int] = ..., lambda_: _Optional[float] = ..., optimizer: _Optional[_Union[OptimizerConfig, _Mapping]] = ...) -> None: ...

class NamedOptimizerConfig(_message.Message):
    __slots__ = ("rule", "learning_rate", "warmup_steps", "hyper_parameters")
    class HyperParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    RULE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    WARMUP_STEPS_FIELD_NUMBER: _ClassVar[int]
    HYPER_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    rule: str
    learning_rate: float
    warmup_steps: int
    hyper_parameters: _containers.ScalarMap[str, float]
    def __init__(self, rule: _Optional[str] = ..., learning_rate: _Optional[float] = ..., warmup_steps: _Optional[int] = ..., hyper_parameters: _Optional[_Mapping[str, float]] = ...) -> None: ...

class OptimizerConfig(_message.Message):
    __slots__ = ("adagrad", "sgd", "ftrl", "dynamic_wd_adagrad", "adadelta", "adam", "amsgrad", "momentum", "moving_average", "rmsprop", "rmspropv2", "dc", "group_ftrl", "batch_softmax", "group_adagrad", "rowwise_adagrad", "adamom", "named", "stochastic_rounding_float16", "max_gradient_norm")
    ADAGRAD_FIELD_NUMBER: _ClassVar[int]
    SGD_FIELD_NUMBER: _ClassVar[int]
    FTRL_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_WD_ADAGRAD_FIELD_NUMBER: _ClassVar[int]
    ADADELTA_FIELD_NUMBER: _ClassVar[int]
    ADAM_FIELD_NUMBER: _ClassVar[int]
    AMSGRAD_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    MOVING_AVERAGE_FIELD_NUMBER: _ClassVar[int]
    RMSPROP_FIELD_NUMBER: _ClassVar[int]
    RMSPROPV2_FIELD_NUMBER: _ClassVar[int]
    DC_FIELD_NUMBER: _ClassVar[int]
    GROUP_FTRL_FIELD_NUMBER: _ClassVar[int]
    BATCH_SOFTMAX_FIELD_NUMBER: _ClassVar[int]
    GROUP_ADAGRAD_FIELD_NUMBER: _ClassVar[int]
    ROWWISE_ADAGRAD_FIELD_NUMBER: _ClassVar[int]
    ADAMOM_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    STOCHASTIC_ROUNDING_FLOAT16_FIELD_NUMBER: _ClassVar[int]
    MAX_GRADIENT_NORM_FIELD_NUMBER: _ClassVar[int]
    adagrad: AdagradOptimizerConfig
    sgd: SgdOptimizerConfig
    ftrl: FtrlOptimizerConfig
    dynamic_wd_adagrad: DynamicWdAdagradOptimizerConfig
    adadelta: AdadeltaOptimizerConfig
    adam: AdamOptimizerConfig
    amsgrad: AmsgradOptimizerConfig
    momentum: MomentumOptimizerConfig
    moving_average: MovingAverageOptimizerConfig
    rmsprop: RmspropOptimizerConfig
    rmspropv2: RmspropV2OptimizerConfig
    dc: DcOptimizerConfig
    group_ftrl: GroupFtrlOptimizerConfig
    batch_softmax: BatchSoftmaxOptimizerConfig
    group_adagrad: GroupAdaGradOptimizerConfig
    rowwise_adagrad: RowwiseAdagradOptimizerConfig
    adamom: AdamomOptimizerConfig
    named: NamedOptimizerConfig
    stochastic_rounding_float16: bool
    max_gradient_norm: float
    def __init__(self, adagrad: _Optional[_Union[AdagradOptimizerConfig, _Mapping]] = ..., sgd: _Optional[_Union[SgdOptimizerConfig, _Mapping]] = ..., ftrl: _Optional[_Union[FtrlOptimizerConfig, _Mapping]] = ..., dynamic_wd_adagrad: _Optional[_Union[DynamicWdAdagradOptimizerConfig, _Mapping]] = ..., adadelta: _Optional[_Union[AdadeltaOptimizerConfig, _Mapping]] = ..., adam: _Optional[_Union[AdamOptimizerConfig, _Mapping]] = ..., amsgrad: _Optional[_Union[AmsgradOptimizerConfig, _Mapping]] = ..., momentum: _Optional[_Union[MomentumOptimizerConfig, _Mapping]] = ..., moving_average: _Optional[_Union[MovingAverageOptimizerConfig, _Mapping]] = ..., rmsprop: _Optional[_Union[RmspropOptimizerConfig, _Mapping]] = ..., rmspropv2: _Optional[_Union[RmspropV2OptimizerConfig, _Mapping]] = ..., dc: _Optional[_Union[DcOptimizerConfig, _Mapping]] = ..., group_ftrl: _Optional[_Union[GroupFtrlOptimizerConfig, _Mapping]] = ..., batch_softmax: _Optional[_Union[BatchSoftmaxOptimizerConfig, _Mapping]] = ..., group_adagrad: _Optional[_Union[GroupAdaGradOptimizerConfig, _Mapping]] = ..., rowwise_adagrad: _Optional[_Union[RowwiseAdagradOptimizerConfig, _Mapping]] = ..., adamom: _Optional[_Union[AdamomOptimizerConfig, _Mapping]] = ..., named: _Optional[_Union[NamedOptimizerConfig, _Mapping]] = ..., stochastic_rounding_float16: _Optional[bool] = ..., max_gradient_norm: _Optional[float] = ...) -> None: ...
