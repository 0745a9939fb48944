"""Segments, tables, and the original's way to describe them."""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from monolith.embedding import entry
from monolith.embedding.entry import HashTableConfigInstance, PolynomialDecay, Segment, SgdOptimizer, TableConfig
from monolith.native_training.test_utils import generate_test_hash_table_config
from monolith.protos.embedding_hash_table_pb2 import EmbeddingHashTableConfig, EntryConfig

ONE = Segment(2, SgdOptimizer(0.5))
BIAS = Segment(1, entry.FtrlOptimizer(0.25), entry.RandomUniformInitializer(), entry.Fp16Compressor())


def table(**changes: Any) -> TableConfig:  # noqa: ANN401
    return TableConfig(**({"name": "uid", "segments": (ONE,)} | changes))


def test_dim_and_learning_rates() -> None:
    config = table(segments=(BIAS, ONE))
    assert config.dim == 3
    assert config.learning_rate_values(7) == [0.25, 0.5]
    scheduled = replace(config, learning_rates=(PolynomialDecay(0.01, 10, 0.11), 0.125))
    assert scheduled.learning_rate_values(1) == [pytest.approx(0.02), 0.125]


def test_changed_segments_bring_their_own_learning_rates() -> None:
    assert replace(table(), segments=(BIAS,)).learning_rate_values(0) == [0.25]


def test_later_changes_of_the_callers_containers_have_no_effect() -> None:
    days = {1: 2}
    config = table(slot_expire_days=days)
    days[1] = 99
    assert config.slot_expire_days == {1: 2}
    assert deepcopy(config) == config
    assert hash(config) == hash(replace(config))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"name": ""}, "name must not be empty"),
        ({"segments": ()}, "table 'uid': a row needs at least one segment"),
        ({"learning_rates": (0.1, 0.2)}, "Size of learning_rate_fns and size of segments must be equal."),
        ({"learning_rates": (math.inf,)}, "learning rate must be finite"),
        ({"initial_capacity": 0}, "initial_capacity must be at least 1 .* got 0"),
        ({"expire_days": -1}, "expire_days must be at least 0 .* got -1"),
        ({"slot_expire_days": {3: -1}}, r"slot_expire_days\[3\] must be at least 0"),
        ({"slot_expire_days": {1 << 15: 1}}, "a slot of slot_expire_days must be at least 0 and below 32768"),
        ({"evict_every_hours": -1}, "evict_every_hours must be at least 0"),
        ({"max_memory_bytes": 0}, "max_memory_bytes must be at least 1"),
        ({"memory_policy": "panic"}, "memory_policy must be 'refuse' or 'evict_oldest', got 'panic'"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"skip_zero_embedding": True}, "only serving tables support skip_zero_embedding"),
    ],
)
def test_senseless_tables_are_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        table(**changes)


@pytest.mark.parametrize("changes", [{"segments": ("x",)}, {"expire_days": 1.5}, {"learning_rates": ("0.1",)}])
def test_wrong_types_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="table 'uid'"):
        table(**changes)


def test_a_policy_without_a_limit_warns() -> None:
    with pytest.warns(UserWarning, match="does nothing without max_memory_bytes"):
        table(memory_policy="evict_oldest")


def test_a_learning_rate_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="gives nan at step 3"):
        table(learning_rates=(lambda step: math.nan,)).learning_rate_values(3)


@pytest.mark.parametrize("dim", [0, -1, 2.0])
def test_senseless_dims_are_refused(dim: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="dim must be a positive integer"):
        Segment(dim, SgdOptimizer())


def test_batch_softmax_needs_dim_1() -> None:
    assert Segment(1, entry.BatchSoftmaxOptimizer(), entry.BatchSoftmaxInitializer(1)).dim == 1
    with pytest.raises(ValueError, match="needs dim 1, got 2"):
        Segment(2, entry.StochasticRoundingFloat16OptimizerWrapper(entry.BatchSoftmaxOptimizer()))


def test_combine_as_segment_takes_wrappers_and_messages() -> None:
    parts = (entry.RandomUniformInitializer(), entry.FtrlOptimizer(0.25), entry.Fp16Compressor())
    assert entry.CombineAsSegment(1, *parts) == BIAS
    assert entry.CombineAsSegment(1, parts[0].as_proto(), parts[1].as_proto(), parts[2].as_proto()) == BIAS
    with pytest.raises(TypeError, match="segment: optimizer must be one of the Optimizer classes"):
        entry.CombineAsSegment(1, parts[1], parts[0], parts[2])  # type: ignore[arg-type]


FULL: list[Callable[[], TableConfig]] = [
    table,
    lambda: table(segments=(BIAS, ONE), initial_capacity=100, expire_days=3, slot_expire_days={5: 1, 2: 0}),
    lambda: table(evict_every_hours=12, max_memory_bytes=1 << 40, memory_policy="evict_oldest", seed=2**64 - 1),
    lambda: table(serving=True, skip_zero_embedding=True),
]


@pytest.mark.parametrize("make", FULL)
def test_table_survives_its_message(make: Callable[[], TableConfig]) -> None:
    config = make()
    message = EmbeddingHashTableConfig.FromString(config.to_proto().SerializeToString())
    assert TableConfig.from_proto(message, name="uid") == config


def test_eviction_is_on_only_if_the_message_enables_it() -> None:
    message = table().to_proto()
    message.feature_evict_every_n_hours = 5
    assert TableConfig.from_proto(message, name="uid").evict_every_hours == 0
    message.enable_feature_eviction = True
    assert TableConfig.from_proto(message, name="uid").evict_every_hours == 5
    message.ClearField("feature_evict_every_n_hours")
    assert TableConfig.from_proto(message, name="uid").evict_every_hours == 240


def test_incomplete_messages_are_refused() -> None:
    def read(change: Callable[[EmbeddingHashTableConfig], None]) -> TableConfig:
        message = table().to_proto()
        change(message)
        return TableConfig.from_proto(message, name="uid")

    with pytest.raises(ValueError, match="init or opt config is missing from entry config"):
        read(lambda message: message.entry_config.segments[0].ClearField("opt_config"))
    with pytest.raises(ValueError, match="init or opt config is missing from entry config"):
        read(lambda message: message.entry_config.segments[0].ClearField("init_config"))
    with pytest.raises(ValueError, match="unknown type of hash table"):
        read(lambda message: message.ClearField("cuckoo"))
    with pytest.raises(ValueError, match="at least one segment"):
        read(lambda message: message.ClearField("entry_config"))


def test_a_serving_segment_needs_its_compressor_alone() -> None:
    message = table(serving=True).to_proto()
    segment = message.entry_config.segments[0]
    segment.ClearField("opt_config")
    segment.ClearField("init_config")
    assert TableConfig.from_proto(message, name="uid").dim == 2
    segment.ClearField("comp_config")
    with pytest.raises(ValueError, match="comp config is missing from entry config"):
        TableConfig.from_proto(message, name="uid")


def test_cuckoo_config_is_converted() -> None:
    message = entry.CuckooHashTableConfig().as_proto()
    assert message.WhichOneof("type") == "cuckoo"
    assert not message.enable_feature_eviction
    config = entry.CuckooHashTableConfig(64, feature_evict_every_n_hours=6).as_table_config("uid", [ONE])
    assert config == table(initial_capacity=64, evict_every_hours=6)
    with pytest.raises(ValueError, match="feature_evict_every_n_hours must not be negative"):
        entry.CuckooHashTableConfig(feature_evict_every_n_hours=-1)


def test_instance_errors() -> None:
    with pytest.raises(ValueError, match=r"Learning_rate_fns must be not empty\."):
        HashTableConfigInstance(table().to_proto(), [])
    with pytest.raises(ValueError, match=r"Size of learning_rate_fns and size of segments must be equal\."):
        HashTableConfigInstance(table().to_proto(), [0.1, 0.2]).as_table_config("uid")


def test_instance_evaluates_and_converts() -> None:
    instance = HashTableConfigInstance(table().to_proto(), [PolynomialDecay(0.01, 10, 0.11)], ["old"])
    assert instance.call_learning_rate_fns(2) == [pytest.approx(0.03)]
    assert instance.extra_restore_names == ["old"]
    config = instance.as_table_config("uid")
    assert config == table(learning_rates=(PolynomialDecay(0.01, 10, 0.11),), extra_restore_names=("old",))


def test_instance_string_is_the_merge_key() -> None:
    def instance(rate: entry.LearningRate, **changes: Any) -> HashTableConfigInstance:  # noqa: ANN401
        return HashTableConfigInstance(table(**changes).to_proto(), [rate])

    assert str(instance(PolynomialDecay(1.0, 5))) == str(instance(PolynomialDecay(1.0, 5)))
    assert instance(0.1) == instance(0.1)
    assert hash(instance(0.1)) == hash(instance(0.1))
    assert instance(0.1) != instance(0.2)
    assert instance(0.1) != instance(0.1, expire_days=1)
    assert instance(PolynomialDecay(1.0, 5)) != instance(PolynomialDecay(1.0, 6))


def test_generate_test_hash_table_config() -> None:
    instance = generate_test_hash_table_config()
    (segment,) = instance.table_config.entry_config.segments
    assert instance.table_config.WhichOneof("type") == "cuckoo"
    assert isinstance(segment, EntryConfig.Segment)
    assert segment.dim_size == 2
    assert segment.opt_config.WhichOneof("type") == "sgd"
    assert not segment.opt_config.stochastic_rounding_float16
    assert segment.init_config.WhichOneof("type") == "zeros"
    assert segment.comp_config.WhichOneof("type") == "fp32"
    assert instance.call_learning_rate_fns() == [1.0]
    other = generate_test_hash_table_config(4, use_float16=True, learning_rate=0.5).as_table_config("t")
    assert (other.dim, other.learning_rate_values(0)) == (4, [0.5])
    assert other.segments[0].optimizer.stochastic_rounding_float16
