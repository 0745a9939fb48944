"""Bytes of the table messages, written out by hand from the field numbers and wire types."""

import struct

import pytest
from google.protobuf.message import Message

from monolith.protos import embedding_hash_table_pb2 as table_pb2
from monolith.protos import float_compressor_pb2 as compressor_pb2
from monolith.protos import initializer_pb2, optimizer_dump_pb2, optimizer_pb2

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def tag(number: int, wire_type: int) -> bytes:
    value = number << 3 | wire_type
    return bytes([value]) if value < 128 else bytes([value & 127 | 128, value >> 7])


def sub_message(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return tag(number, LENGTH) + bytes([len(content)]) + content


def float_field(number: int, value: float) -> bytes:
    return tag(number, FIXED32) + struct.pack("<f", value)


def test_entry_dump_has_a_fixed_id_and_unpacked_floats() -> None:
    dump = table_pb2.EntryDump(id=-2, num=[1.0, -0.5], last_update_ts_sec=300)
    dump.opt.dump.add().adagrad.norm.append(0.25)
    by_hand = (
        b"\x09\xfe\xff\xff\xff\xff\xff\xff\xff"
        b"\x15\x00\x00\x80\x3f"
        b"\x15\x00\x00\x00\xbf"
        b"\x1a\x09\x0a\x07\x0a\x05\x0d\x00\x00\x80\x3e"
        b"\x20\xac\x02"
    )
    assert dump.SerializeToString() == by_hand
    assert table_pb2.EntryDump.FromString(by_hand) == dump


def test_default_entry_dump_is_the_empty_string() -> None:
    assert table_pb2.EntryDump().SerializeToString() == b""


def test_table_config_bytes() -> None:
    config = table_pb2.EmbeddingHashTableConfig(initial_capacity=3, skip_zero_embedding=True)
    config.cuckoo.SetInParent()
    config.entry_type = table_pb2.EmbeddingHashTableConfig.RAW
    config.enable_feature_eviction = True
    config.feature_evict_every_n_hours = 5
    config.slot_expire_time_config.default_expire_time = 7
    config.slot_expire_time_config.slot_expire_times.add(slot=4, expire_time=9)
    config.entry_config.entry_type = table_pb2.EntryConfig.SERVING
    segment = config.entry_config.segments.add(dim_size=6)
    segment.init_config.constants.constant = 2.0
    segment.opt_config.sgd.learning_rate = 0.5
    segment.comp_config.fixed_r8.r = 4.0
    segment_bytes = (
        sub_message(1, sub_message(15, float_field(2, 2.0)))
        + sub_message(2, sub_message(2, float_field(2, 0.5)))
        + sub_message(3, sub_message(3, float_field(2, 4.0)))
        + b"\x38\x06"
    )
    by_hand = (
        sub_message(1, sub_message(1, segment_bytes) + b"\x10\x02")
        + b"\x10\x03"
        + sub_message(3, sub_message(1, b"\x08\x04\x10\x09") + b"\x10\x07")
        + b"\x2a\x00"
        + b"\x30\x02\x38\x01\x40\x05\x50\x01"
    )
    assert config.SerializeToString(deterministic=True) == by_hand


def test_own_fields_are_skipped_by_those_who_do_not_know_them() -> None:
    """Original bytes still parse, and ours differ from them only in fields numbered 101 and up."""
    config = table_pb2.EmbeddingHashTableConfig(initial_capacity=3)
    original = config.SerializeToString()
    config.max_memory_bytes = 1
    config.memory_policy = table_pb2.EmbeddingHashTableConfig.EVICT_OLDEST
    config.seed = 2
    own = tag(101, VARINT) + b"\x01" + tag(102, VARINT) + b"\x01" + tag(103, VARINT) + b"\x02"
    assert config.SerializeToString() == original + own


def test_a_rule_by_its_name() -> None:
    config = optimizer_pb2.NamedOptimizerConfig(
        rule="sign", learning_rate=0.5, warmup_steps=3, hyper_parameters={"a": 2}
    )
    pair = sub_message(1, b"a") + float_field(2, 2.0)
    by_hand = sub_message(1, b"sign") + float_field(2, 0.5) + b"\x18\x03" + sub_message(4, pair)
    assert config.SerializeToString() == by_hand
    dump = optimizer_dump_pb2.NamedOptimizerDump(rule="sign")
    dump.slot.add(name="m", value=[0.25])
    dump.slot.add(name="s", step=7)
    slots = [sub_message(1, b"m") + float_field(2, 0.25), sub_message(1, b"s") + b"\x18\x07"]
    assert dump.SerializeToString() == sub_message(1, b"sign") + b"".join(sub_message(2, slot) for slot in slots)


def numbers(message: type[Message], oneof: str) -> dict[str, int]:
    return {field.name: field.number for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields}


def test_oneof_numbers() -> None:
    assert numbers(optimizer_pb2.OptimizerConfig, "type") == {
        "adagrad": 1, "sgd": 2, "ftrl": 3, "dynamic_wd_adagrad": 5, "adadelta": 6, "adam": 7, "amsgrad": 8,
        "momentum": 9, "moving_average": 10, "rmsprop": 11, "rmspropv2": 12, "dc": 13, "group_ftrl": 14,
        "batch_softmax": 15, "group_adagrad": 16, "rowwise_adagrad": 101, "adamom": 102, "named": 104,
    }  # fmt: skip
    assert numbers(optimizer_dump_pb2.SingleOptimizerDump, "type") == {
        "adagrad": 1, "sgd": 2, "ftrl": 3, "dynamic_wd_adagrad": 4, "adadelta": 6, "adam": 7, "amsgrad": 8,
        "momentum": 9, "rmsprop": 11, "rmspropv2": 12, "group_ftrl": 13, "batch_softmax": 14, "group_adagrad": 15,
        "rowwise_adagrad": 101, "adamom": 102, "named": 103,
    }  # fmt: skip
    assert numbers(initializer_pb2.InitializerConfig, "type") == {
        "zeros": 1, "random_uniform": 2, "ones": 3, "constants": 15, "random_normal": 101,
    }  # fmt: skip
    assert numbers(compressor_pb2.FloatCompressorConfig, "type") == {
        "fp32": 1, "fp16": 2, "fixed_r8": 3, "one_bit": 4, "bf16": 101,
    }  # fmt: skip
    assert optimizer_pb2.OptimizerConfig.DESCRIPTOR.fields_by_name["stochastic_rounding_float16"].number == 4
    assert optimizer_pb2.OptimizerConfig.DESCRIPTOR.fields_by_name["max_gradient_norm"].number == 103


# Field numbers and defaults, message by message; dim_size = 1 is common to all of them.
ADAGRAD = {
    "learning_rate": (2, 0.001), "initial_accumulator_value": (3, 0.1), "hessian_compression_times": (4, 1),
    "weight_decay_factor": (5, 0), "warmup_steps": (6, 0),
}  # fmt: skip
AMSGRAD = {
    "learning_rate": (2, 0.01), "beta1": (3, 0.9), "beta2": (4, 0.99), "weight_decay_factor": (6, 0),
    "use_nesterov": (7, 0), "epsilon": (8, 0.01), "warmup_steps": (9, 0),
}  # fmt: skip
FTRL = {
    "learning_rate": (2, 0.01), "beta": (3, 0), "initial_accumulator_value": (4, 0.1),
    "l1_regularization_strength": (5, 0), "l2_regularization_strength": (6, 0), "warmup_steps": (7, 0),
}  # fmt: skip
RMSPROP = {"learning_rate": (2, 0.01), "weight_decay_factor": (3, 0), "momentum": (4, 0.9)}
CONFIG_FIELDS: list[tuple[Message, dict[str, tuple[int, float]]]] = [
    (optimizer_pb2.AdagradOptimizerConfig(), ADAGRAD),
    (
        optimizer_pb2.DynamicWdAdagradOptimizerConfig(),
        ADAGRAD
        | {"decouple_weight_decay": (7, 0), "enable_dynamic_wd": (8, 0), "dynamic_wd_temperature": (9, 1.0)}
        | {"flip_direction": (10, 0)},
    ),
    (optimizer_pb2.SgdOptimizerConfig(), {"learning_rate": (2, 0.01), "warmup_steps": (6, 0)}),
    (optimizer_pb2.FtrlOptimizerConfig(), FTRL),
    (optimizer_pb2.GroupFtrlOptimizerConfig(), FTRL | {"beta": (3, 1.0), "initial_accumulator_value": (4, 0)}),
    (
        optimizer_pb2.GroupAdaGradOptimizerConfig(),
        {"learning_rate": (2, 0.01), "beta": (3, 0), "initial_accumulator_value": (4, 0.1)}
        | {"l2_regularization_strength": (5, 0), "weight_decay_factor": (6, 0), "warmup_steps": (7, 0)},
    ),
    (
        optimizer_pb2.AdadeltaOptimizerConfig(),
        {"learning_rate": (2, 0.01), "weight_decay_factor": (3, 0), "averaging_ratio": (4, 0.9)}
        | {"epsilon": (5, 0.01), "warmup_steps": (7, 0)},
    ),
    (optimizer_pb2.AdamOptimizerConfig(), AMSGRAD | {"use_beta1_warmup": (5, 0)}),
    (optimizer_pb2.AmsgradOptimizerConfig(), AMSGRAD),
    (
        optimizer_pb2.MomentumOptimizerConfig(),
        {"learning_rate": (2, 0.01), "weight_decay_factor": (3, 0), "use_nesterov": (4, 0), "momentum": (5, 0.9)}
        | {"warmup_steps": (6, 0)},
    ),
    (optimizer_pb2.MovingAverageOptimizerConfig(), {"momentum": (2, 0.9)}),
    (optimizer_pb2.BatchSoftmaxOptimizerConfig(), {"learning_rate": (2, 0.1)}),
    (optimizer_pb2.RmspropOptimizerConfig(), RMSPROP),
    (optimizer_pb2.RmspropV2OptimizerConfig(), RMSPROP),
    (initializer_pb2.RandomUniformInitializerConfig(), {"minval": (2, -0.05), "maxval": (3, 0.05)}),
    (initializer_pb2.ConstantsInitializerConfig(), {"constant": (2, 0)}),
    (compressor_pb2.FixedR8CompressorConfig(), {"r": (2, 1.0)}),
    (
        compressor_pb2.OneBitCompressorConfig(),
        {"step_size": (2, 200), "init_scale": (3, 1.0), "max_scale": (4, 10000.0), "amplitude": (5, 0.1)},
    ),
]


@pytest.mark.parametrize(("message", "expected"), CONFIG_FIELDS, ids=lambda value: type(value).__name__)
def test_field_numbers_and_defaults(message: Message, expected: dict[str, tuple[int, float]]) -> None:
    found = {field.name: (field.number, getattr(message, field.name)) for field in message.DESCRIPTOR.fields}
    assert found.pop("dim_size") == (1, 0)
    assert found.keys() == expected.keys()
    for name, (number, default) in expected.items():
        assert found[name] == (number, pytest.approx(default, rel=1e-6)), name


def test_table_defaults() -> None:
    config = table_pb2.EmbeddingHashTableConfig()
    assert config.initial_capacity == 1
    assert config.entry_type == table_pb2.EmbeddingHashTableConfig.PACKED
    assert config.feature_evict_every_n_hours == 240
    assert not config.enable_feature_eviction
    assert not config.skip_zero_embedding
    assert config.entry_config.entry_type == table_pb2.EntryConfig.TRAINING
    assert config.slot_expire_time_config.default_expire_time == 36500
    assert table_pb2.SlotOccurrenceThresholdConfig().default_occurrence_threshold == 0
