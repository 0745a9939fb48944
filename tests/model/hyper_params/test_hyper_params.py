import copy

import pytest

from monolith.model.hyper_params import (
    GetAllRegisteredClasses,
    GetClass,
    GetParams,
    InstantiableParams,
    Params,
    RegisterSingleTaskModel,
    SingleTaskModelParams,
    params,
    with_params,
)


def nested():
    made, inner = Params(), Params()
    made.define("units", 8, "width")
    made.define("train", inner, "training")
    inner.define("steps", None, "how long")
    inner.define("rates", [1, 2], "rates")
    return made


def test_a_copy_shares_nothing_that_can_change():
    one = nested()
    other = one.copy()
    other.train.rates.append(3)
    other.set(**{"train.steps": 5})
    assert (one.train.rates, one.train.steps) == ([1, 2], None)
    assert other != one
    assert copy.deepcopy(one) == one


def test_frozen_settings_do_not_change_but_their_copy_does():
    one = nested()
    one.freeze()
    for change in (
        lambda: one.set(units=3),
        lambda: setattr(one.train, "steps", 3),
        lambda: one.define("more", 1, ""),
        lambda: one.delete("units"),
    ):
        with pytest.raises(TypeError, match="frozen"):
            change()
    assert one.copy().set(units=3).units == 3


def test_one_unknown_name_changes_nothing():
    one = nested()
    with pytest.raises(AttributeError, match="did you mean 'units'"):
        one.set(train=None, unitz=4)
    assert one == nested()
    with pytest.raises(AttributeError, match="'units' is 8 and has no parameters inside"):
        one.get("units.more")
    with pytest.raises(AttributeError, match="already defined"):
        one.define("units", 1, "again")
    for name in ("Units", "1st", "a-b", ""):
        with pytest.raises(AttributeError, match="small letters"):
            one.define(name, 1, "")


def test_deleted_settings_are_gone():
    one = nested().delete("train.steps")
    assert [name for name, _ in one.train.iter_params()] == ["rates"]
    assert "steps" not in one.train


@with_params
class Base:
    def __init__(self, units, rate=0.1, **kwargs):
        self.units, self.rate = units, rate


@with_params
class Derived(Base):
    def __init__(self, units, depth=2, rate=0.5):
        super().__init__(units, rate)
        self.depth = depth


def test_arguments_of_all_constructors_are_parameters_with_the_nearest_defaults():
    made = Derived.params()
    assert isinstance(made, InstantiableParams)
    assert (made.cls, made.units, made.rate, made.depth, made.name) == (Derived, None, 0.5, 2, "derived")
    assert made.allowed_kwargs is None
    layer = made.set(units=3, depth=7).instantiate(rate=1.0)
    assert (type(layer), layer.units, layer.depth, layer.rate) == (Derived, 3, 7, 1.0)
    assert Base.params().rate == 0.1


class Task:
    @classmethod
    def params(cls):
        made = InstantiableParams(cls)
        made.define("train", Params(), "training")
        made.train.define("per_replica_batch_size", None, "")
        return made

    def __init__(self, params):
        self.p = params


def test_a_class_that_takes_params_gets_them_and_defaults_reach_inside():
    class Sub(Task):
        def __init__(self, params, per_replica_batch_size=64):
            super().__init__(params)

    made = params(Sub)
    assert made.train.per_replica_batch_size == 64
    assert made.instantiate().p is made


def test_models_are_found_by_their_whole_key_or_its_end():
    @RegisterSingleTaskModel
    class OnlyHere(SingleTaskModelParams):
        def task(self):
            return Task.params().set(**{"train.per_replica_batch_size": 3})

    key = f"{__name__}.{OnlyHere.__qualname__}"
    assert GetAllRegisteredClasses()[key] is OnlyHere
    assert GetClass("OnlyHere") is GetClass(key) is OnlyHere
    assert GetParams("OnlyHere").train.per_replica_batch_size == 3
    with pytest.raises(LookupError, match="no model 'Nowhere'"):
        GetClass("Nowhere")
