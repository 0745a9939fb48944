"""A row optimizer is declared once, in C++: classes and messages say the same names and defaults."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from monolith._core import native
from monolith.embedding import AdamOptimizer, Optimizer, Table, TableConfig, entry
from monolith.embedding.config import optimizers, rules
from monolith.embedding.config.proto_fields import proto_name
from monolith.embedding.config.rules import DECLARED, RULES
from monolith.embedding.config.segment import Segment
from monolith.protos.optimizer_dump_pb2 import SingleOptimizerDump
from monolith.protos.optimizer_pb2 import OptimizerConfig

CLASSES: dict[str, type[Any]] = {
    cls.kind: cls for cls in Optimizer.__subclasses__() if not cls.__name__.startswith("_")
}
WITH_MESSAGE = [kind for kind in RULES if kind in OptimizerConfig.DESCRIPTOR.fields_by_name]
WITH_DUMP = [kind for kind in RULES if kind in SingleOptimizerDump.DESCRIPTOR.fields_by_name]

BESIDE_THE_STEP = {"dim_size", "learning_rate", "warmup_steps", "hessian_compression_times", "use_beta1_warmup"}
"""Fields and arguments that the step of a row does not read."""

OTHER_DEFAULTS = {"decouple_weight_decay", "enable_dynamic_wd", "flip_direction"}
"""On in the original's Python and off in its message."""


def test_every_rule_has_one_class_and_users_can_import_it() -> None:
    assert CLASSES.keys() == RULES.keys()
    assert {cls.__name__ for cls in CLASSES.values()} <= set(optimizers.__all__) <= set(entry.__all__)


@pytest.mark.parametrize("kind", RULES)
def test_a_class_takes_what_its_rule_declares_and_has_its_defaults(kind: str) -> None:
    declared = {parameter.name: parameter.default for parameter in RULES[kind].hyper_parameters}
    arguments = {proto_name(field): field.default for field in fields(CLASSES[kind])}
    assert arguments.keys() - BESIDE_THE_STEP == declared.keys()
    for name in declared.keys() - OTHER_DEFAULTS:
        assert arguments[name] is None or (arguments[name], type(arguments[name])) == (
            declared[name],
            type(declared[name]),
        )
    assert ("learning_rate" in arguments) == (RULES[kind].learning_rate > 0)
    assert list(CLASSES[kind]().hyper_parameters()) == list(declared)
    assert all(
        f"{parameter.name}: {parameter.meaning}" in CLASSES[kind].__doc__ for parameter in RULES[kind].hyper_parameters
    )


@pytest.mark.parametrize("kind", WITH_MESSAGE)
def test_a_message_has_the_declared_names_and_defaults(kind: str) -> None:
    message = OptimizerConfig.DESCRIPTOR.fields_by_name[kind].message_type
    defaults = {field.name: field.default_value for field in message.fields}
    declared = {parameter.name: parameter.default for parameter in RULES[kind].hyper_parameters}
    assert defaults.keys() - BESIDE_THE_STEP == declared.keys()
    for name, default in declared.items():
        assert np.float32(defaults[name]) == np.float32(default), name
        assert isinstance(defaults[name], bool) == isinstance(default, bool), name
    assert np.float32(defaults.get("learning_rate", 0.0)) == np.float32(RULES[kind].learning_rate)


@pytest.mark.parametrize("kind", WITH_DUMP)
def test_a_dump_has_the_declared_state(kind: str) -> None:
    message = SingleOptimizerDump.DESCRIPTOR.fields_by_name[kind].message_type
    state = RULES[kind].state
    assert {field.name for field in message.fields} == {slot.name for slot in state}
    for slot in state:
        field = message.fields_by_name[slot.name]
        assert (field.type == field.TYPE_INT64) == slot.is_step
        assert field.is_repeated == (not slot.is_step and slot.floats(7) == 7)
    assert sum(slot.floats(1) for slot in state) == native.state_floats(kind, [], 1)


@pytest.mark.parametrize("kind", RULES)
def test_a_rule_without_a_message_travels_by_its_name(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_WITH_MESSAGE", set())
    given = {name: 3 if name == "warmup_steps" else 0.1 for name in ("learning_rate", "warmup_steps", "momentum")}
    known = {field.name for field in fields(CLASSES[kind])}
    for optimizer in (CLASSES[kind](), CLASSES[kind](**{name: given[name] for name in given.keys() & known})):
        config = OptimizerConfig.FromString(optimizer.as_proto().SerializeToString())
        assert (config.WhichOneof("type"), config.named.rule) == ("named", kind)
        assert Optimizer.from_proto(config) == optimizer
        if "hessian_compression_times" not in known:  # a whole number, which no rule declares
            assert repr(Optimizer.from_proto(config)) == repr(optimizer)


def test_a_message_names_a_rule_and_hyper_parameters_that_exist() -> None:
    config = OptimizerConfig()
    config.named.rule = "sign"
    with pytest.raises(ValueError, match="unknown rule 'sign'; choose one of sgd, adagrad"):
        Optimizer.from_proto(config)
    config.named.rule = "adam"
    config.named.hyper_parameters["gamma"] = 1.0
    with pytest.raises(ValueError, match="adam has no gamma; it has learning_rate, beta1"):
        Optimizer.from_proto(config)
    config.named.hyper_parameters.clear()
    config.named.hyper_parameters["use_nesterov"] = 1.0
    assert Optimizer.from_proto(config) == AdamOptimizer(use_nesterov=True)


def test_a_class_says_no_more_than_its_rule() -> None:
    with pytest.raises(TypeError, match="NoSuchOptimizer: no rule 'no_such' in the native core; CONTRIBUTING.md"):
        type("NoSuchOptimizer", (Optimizer,), {"kind": "no_such"})
    body = {"kind": "momentum", "gamma": DECLARED, "__annotations__": {"gamma": float}}
    with pytest.raises(TypeError, match="momentum declares no gamma; it has weight_decay_factor, use_nesterov"):
        type("WrongOptimizer", (Optimizer,), body)


def test_a_class_of_ones_own_keeps_its_rule() -> None:
    mine = type("MineOptimizer", (AdamOptimizer,), {})
    tables = [Table(TableConfig(name="t", segments=(Segment(2, cls(beta1=0.5)),))) for cls in (mine, AdamOptimizer)]
    assert tables[0].schema() == tables[1].schema()
    assert type(Optimizer.from_proto(mine().as_proto())) is AdamOptimizer
