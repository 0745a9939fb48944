"""Names and their slots."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monolith.features import SlotMap
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def test_names_of_numbered_slots():
    slots = SlotMap()
    assert slots.feature_name_of(7) == "slot_7"
    slots.enable_tob_env()
    assert slots.feature_name_of(7) == "fc_slot_7"


def test_registered_names_come_first_then_numbers_then_the_counter():
    slots = SlotMap()
    slots.register({"slot_9": 4, "uid": 1})
    assert slots.slot_of("slot_9") == 4
    assert slots.slot_of("slot_12") == slots.slot_of("fc_slot_12") == 12
    assert slots.slot_of("slot_user_30") == 30
    assert [slots.slot_of(name) for name in ("gender", "age", "uid", "gender")] == [2, 3, 1, 2]
    assert slots.slot_of("city") == 5  # 4 is taken


def test_the_counter_begins_with_one():
    assert SlotMap().slot_of("anything") == 1


def test_a_list_registers_numbered_names():
    slots = SlotMap()
    slots.register([3, 5])
    assert slots.names() == {"slot_3": 3, "slot_5": 5}


def test_nothing_is_renumbered():
    slots = SlotMap()
    slots.register({"uid": 1})
    slots.register({"uid": 1})
    with pytest.raises(ValueError, match=r"'uid' has slot 1 and cannot get slot 2: slots are never renumbered"):
        slots.register({"new": 7, "uid": 2})
    assert slots.names() == {"uid": 1}


def test_a_number_that_the_counter_gave_away_is_not_given_again():
    slots = SlotMap()
    assert slots.slot_of("uid") == 1
    for map_ in (slots, SlotMap.from_json(slots.to_json())):
        with pytest.raises(ValueError, match=r"slot 1 of feature 'slot_1' was given to 'uid'"):
            map_.slot_of("slot_1")
        with pytest.raises(ValueError, match="register the slots of all features before"):
            map_.register({"gender": 1})


@pytest.mark.parametrize("slot", [32768, -1])
def test_slots_out_of_range_are_refused(slot):
    with pytest.raises(ValueError, match="slot should"):
        SlotMap().register({"uid": slot})
    with pytest.raises(ValueError, match="less than 32768, while got 99999"):
        SlotMap().slot_of("slot_99999")


def test_no_slot_is_left():
    slots = SlotMap()
    slots.register({f"f{i}": i for i in range(1, 32768)})
    with pytest.raises(ValueError, match="less than 32768, while got 32768"):
        slots.slot_of("one too many")


NAMES = st.text(min_size=1, max_size=8)


@given(st.dictionaries(NAMES, st.integers(100, 32767), max_size=5), st.lists(NAMES, max_size=5), st.booleans())
def test_json_keeps_everything(registered, counted, tob_env):
    slots = SlotMap()
    slots.register(registered)
    if tob_env:
        slots.enable_tob_env()
    given_slots = {name: slots.slot_of(name) for name in counted}
    again = SlotMap.from_json(slots.to_json())
    assert again.to_json() == slots.to_json()
    assert again.names() == slots.names()
    assert {name: again.slot_of(name) for name in counted} == given_slots
    assert again.feature_name_of(3) == ("fc_slot_3" if tob_env else "slot_3")
    assert again.slot_of("a name that nobody has") == slots.slot_of("a name that nobody has")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({"counted": [1], "slots": {}, "tob_env": False}),
        json.dumps({"counted": [], "slots": {"a": "1"}, "tob_env": False}),
        json.dumps({"counted": [], "slots": {"a": True}, "tob_env": False}),
        json.dumps({"counted": [], "slots": {"a": 70000}, "tob_env": False}),
        json.dumps({"counted": [], "slots": {"a": 1}, "tob_env": 0}),
        "[" * 100000,
    ],
)
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match="slot"):
        SlotMap.from_json(text)


def test_the_functions_share_one_map_per_process():
    program = """
from monolith.features import enable_tob_env, get_slot_feature_name, get_slot_from_feature_name, register_slots
register_slots({"uid": 1}); register_slots([200])
print(get_slot_from_feature_name("uid"), get_slot_from_feature_name("gid"), get_slot_from_feature_name("slot_200"))
print(get_slot_feature_name(8)); enable_tob_env(); print(get_slot_feature_name(8))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout.split() == ["1", "2", "200", "slot_8", "fc_slot_8"], done.stderr
