# ruff: noqa
# fmt: off
# mypy: ignore-errors
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AdagradOptimizerDump(_message.Message):
    __slots__ = ("norm",)
    NORM_FIELD_NUMBER: _ClassVar[int]
    norm: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, norm: _Optional[_Iterable[float]] = ...) -> None: ...

class SgdOptimizerDump(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FtrlOptimizerDump(_message.Message):
    __slots__ = ("zero", "norm")
    ZERO_FIELD_NUMBER: _ClassVar[int]
    NORM_FIELD_NUMBER: _ClassVar[int]
    zero: _containers.RepeatedScalarFieldContainer[float]
    norm: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, zero: _Optional[_Iterable[float]] = ..., norm: _Optional[_Iterable[float]] = ...) -> None: ...

class DynamicWdAdagradOptimizerDump(_message.Message):
    __slots__ = ("norm", "last_update_step")
    NORM_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATE_STEP_FIELD_NUMBER: _ClassVar[int]
    norm: _containers.RepeatedScalarFieldContainer[float]
    last_update_step: int
    def __init__(self, norm: _Optional[_Iterable[float]] = ..., last_update_step: _Optional[int] = ...) -> None: ...

class AdadeltaOptimizerDump(_message.Message):
    __slots__ = ("accum", "accum_update")
    ACCUM_FIELD_NUMBER: _ClassVar[int]
    ACCUM_UPDATE_FIELD_NUMBER: _ClassVar[int]
    accum: _containers.RepeatedScalarFieldContainer[float]
    accum_update: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, accum: _Optional[_Iterable[float]] = ..., accum_update: _Optional[_Iterable[float]] = ...) -> None: ...

class AdamOptimizerDump(_message.Message):
    __slots__ = ("m", "v", "beta1_power", "beta2_power")
    M_FIELD_NUMBER: _ClassVar[int]
    V_FIELD_NUMBER: _ClassVar[int]
    BETA1_POWER_FIELD_NUMBER: _ClassVar[int]
    BETA2_POWER_FIELD_NUMBER: _ClassVar[int]
    m: _containers.RepeatedScalarFieldContainer[float]
    v: _containers.RepeatedScalarFieldContainer[float]
    beta1_power: float
    beta2_power: float
    def __init__(self, m: _Optional[_Iterable[float]] = ..., v: _Optional[_Iterable[float]] = ..., beta1_power: _Optional[float] = ..., beta2_power: _Optional[float] = ...) -> None: ...

class AmsgradOptimizerDump(_message.Message):
    __slots__ = ("m", "v", "vhat", "beta1_power", "beta2_power")
    M_FIELD_NUMBER: _ClassVar[int]
    V_FIELD_NUMBER: _ClassVar[int]
    VHAT_FIELD_NUMBER: _ClassVar[int]
    BETA1_POWER_FIELD_NUMBER: _ClassVar[int]
    BETA2_POWER_FIELD_NUMBER: _ClassVar[int]
    m: _containers.RepeatedScalarFieldContainer[float]
    v: _containers.RepeatedScalarFieldContainer[float]
    vhat: _containers.RepeatedScalarFieldContainer[float]
    beta1_power: float
    beta2_power: float
    def __init__(self, m: _Optional[_Iterable[float]] = ..., v: _Optional[_Iterable[float]] = ..., vhat: _Optional[_Iterable[float]] = ..., beta1_power: _Optional[float] = ..., beta2_power: _Optional[float] = ...) -> None: ...

class MomentumOptimizerDump(_message.Message):
    __slots__ = ("n",)
    N_FIELD_NUMBER: _ClassVar[int]
    n: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, n: _Optional[_Iterable[float]] = ...) -> None: ...

class RmspropOptimizerDump(_message.Message):
    __slots__ = ("n",)
    N_FIELD_NUMBER: _ClassVar[int]
    n: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, n: _Optional[_Iterable[float]] = ...) -> None: ...

class RmspropV2OptimizerDump(_message.Message):
    __slots__ = ("n",)
    N_FIELD_NUMBER: _ClassVar[int]
    n: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, n: _Optional[_Iterable[float]] = ...) -> None: ...

class GroupFtrlOptimizerDump(_message.Message):
    __slots__ = ("zero", "norm")
    ZERO_FIELD_NUMBER: _ClassVar[int]
    NORM_FIELD_NUMBER: _ClassVar[int]
    zero: _containers.RepeatedScalarFieldContainer[float]
    norm: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, zero: _Optional[_Iterable[float]] = ..., norm: _Optional[_Iterable[float]] = ...) -> None: ...

class BatchSoftmaxOptimizerDump(_message.Message):
    __slots__ = ("global_step",)
    GLOBAL_STEP_FIELD_NUMBER: _ClassVar[int]
    global_step: int
    def __init__(self, global_step: _Optional[int] = ...) -> None: ...

class GroupAdaGradOptimizerDump(_message.Message):
    __slots__ = ("grad_square_sum",)
    GRAD_SQUARE_SUM_FIELD_NUMBER: _ClassVar[int]
    grad_square_sum: float
    def __init__(self, grad_square_sum: _Optional[float] = ...) -> None: ...

class RowwiseAdagradOptimizerDump(_message.Message):
    __slots__ = ("norm",)
    NORM_FIELD_NUMBER: _ClassVar[int]
    norm: float
    def __init__(self, norm: _Optional[float] = ...) -> None: ...

class AdamomOptimizerDump(_message.Message):
    __slots__ = ("m", "v", "c")
    M_FIELD_NUMBER: _ClassVar[int]
    V_FIELD_NUMBER: _ClassVar[int]
    C_FIELD_NUMBER: _ClassVar[int]
    m: _containers.RepeatedScalarFieldContainer[float]
    v: _containers.RepeatedScalarFieldContainer[float]
    c: float
    def __init__(self, m: _Optional[_Iterable[float]] = ..., v: _Optional[_Iterable[float]] = ..., c: _Optional[float] = ...) -> None: ...

class NamedOptimizerDump(_message.Message):
    __slots__ = ("rule", "slot")
    class Slot(_message.Message):
        __slots__ = ("name", "value", "step")
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        STEP_FIELD_NUMBER: _ClassVar[int]
        name: str
        value: _containers.RepeatedScalarFieldContainer[float]
        step: int
        def __init__(self, name: _Optional[str] = ..., value: _Optional[_Iterable[float]] = ..., step: _Optional[int] = ...) -> None: ...
    RULE_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    rule: str
    slot: _containers.RepeatedCompositeFieldContainer[NamedOptimizerDump.Slot]
    def __init__(self, rule: _Optional[str] = ..., slot: _Optional[_Iterable[_Union[NamedOptimizerDump.Slot, _Mapping]]] = ...) -> None: ...

class SingleOptimizerDump(_message.Message):
    __slots__ = ("adagrad", "sgd", "ftrl", "dynamic_wd_adagrad", "adadelta", "adam", "amsgrad", "momentum", "rmsprop", "rmspropv2", "group_ftrl", "batch_softmax", "group_adagrad", "rowwise_adagrad", "adamom", "named")
    ADAGRAD_FIELD_NUMBER: _ClassVar[int]
    SGD_FIELD_NUMBER: _ClassVar[int]
    FTRL_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_WD_ADAGRAD_FIELD_NUMBER: _ClassVar[int]
    ADADELTA_FIELD_NUMBER: _ClassVar[int]
    ADAM_FIELD_NUMBER: _ClassVar[int]
    AMSGRAD_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    RMSPROP_FIELD_NUMBER: _ClassVar[int]
    RMSPROPV2_FIELD_NUMBER: _ClassVar[int]
    GROUP_FTRL_FIELD_NUMBER: _ClassVar[int]
    BATCH_SOFTMAX_FIELD_NUMBER: _ClassVar[int]
    GROUP_ADAGRAD_FIELD_NUMBER: _ClassVar[int]
    ROWWISE_ADAGRAD_FIELD_NUMBER: _ClassVar[int]
    ADAMOM_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    adagrad: AdagradOptimizerDump
    sgd: SgdOptimizerDump
    ftrl: FtrlOptimizerDump
    dynamic_wd_adagrad: DynamicWdAdagradOptimizerDump
    adadelta: AdadeltaOptimizerDump
    adam: AdamOptimizerDump
    amsgrad: AmsgradOptimizerDump
    momentum: MomentumOptimizerDump
    rmsprop: RmspropOptimizerDump
    rmspropv2: RmspropV2OptimizerDump
    group_ftrl: GroupFtrlOptimizerDump
    batch_softmax: BatchSoftmaxOptimizerDump
    group_adagrad: GroupAdaGradOptimizerDump
    rowwise_adagrad: RowwiseAdagradOptimizerDump
    adamom: AdamomOptimizerDump
    named: NamedOptimizerDump
    def __init__(self, adagrad: _Optional[_Union[AdagradOptimizerDump, _Mapping]] = ..., sgd: _Optional[_Union[SgdOptimizerDump, _Mapping]] = ..., ftrl: _Optional[_Union[FtrlOptimizerDump, _Mapping]] = ..., dynamic_wd_adagrad: _Optional[_Union[DynamicWdAdagradOptimizerDump, _Mapping]] = ..., adadelta: _Optional[_Union[AdadeltaOptimizerDump, _Mapping]] = ..., adam: _Optional[_Union[AdamOptimizerDump, _Mapping]] = ..., amsgrad: _Optional[_Union[AmsgradOptimizerDump, _Mapping]] = ..., momentum: _Optional[_Union[MomentumOptimizerDump, _Mapping]] = ..., rmsprop: _Optional[_Union[RmspropOptimizerDump, _Mapping]] = ..., rmspropv2: _Optional[_Union[RmspropV2OptimizerDump, _Mapping]] = ..., group_ftrl: _Optional[_Union[GroupFtrlOptimizerDump, _Mapping]] = ..., batch_softmax: _Optional[_Union[BatchSoftmaxOptimizerDump, _Mapping]] = ..., group_adagrad: _Optional[_Union[GroupAdaGradOptimizerDump, _Mapping]] = ..., rowwise_adagrad: _Optional[_Union[RowwiseAdagradOptimizerDump, _Mapping]] = ..., adamom: _Optional[_Union[AdamomOptimizerDump, _Mapping]] = ..., named: _Optional[_Union[NamedOptimizerDump, _Mapping]] = ...) -> None: ...

class OptimizerDump(_message.Message):
    __slots__ = ("dump",)
    DUMP_FIELD_NUMBER: _ClassVar[int]
    dump: _containers.RepeatedCompositeFieldContainer[SingleOptimizerDump]
    def __init__(self, dump: _Optional[_Iterable[_Union[SingleOptimizerDump, _Mapping]]] = ...) -> None: ...
