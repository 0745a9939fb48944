"""Which features share a table, and what it is called."""

from hashlib import md5

import pytest

from monolith.embedding.config.merging import extra_restore_names, merge_tables, merged_table_name
from monolith.native_training.test_utils import generate_test_hash_table_config


@pytest.mark.parametrize(
    ("features", "name"),
    [
        (["slot0", "slot1"], "e21904dd414d1780e5fc904866dc69c2"),
        (["slot1", "slot0"], "e21904dd414d1780e5fc904866dc69c2"),
        (["uid"], "9871d3a2c554b27151cacf1422eec048"),
        (["gid", "cid"], "c4a398dea30b21551ae4c09454001dba"),
    ],
)
def test_golden_names(features: list[str], name: str) -> None:
    assert merged_table_name(features) == name


def test_golden_older_name() -> None:
    assert extra_restore_names(["fc_slot_0"]) == ["cde3ba88ba62b682f84241b273f8100c"]


@pytest.mark.parametrize("features", [["slot_0"], ["uid", "gid"], ["my_fc_slot_0"], ["fc_slot_0_share"]])
def test_other_names_have_no_older_one(features: list[str]) -> None:
    assert extra_restore_names(features) == []


def test_older_name_in_either_order() -> None:
    """Without "fc_", slot_1 sorts behind name; both orders may be found in a snapshot."""
    expected = [md5(text.encode()).hexdigest() for text in ("slot_1,name", "name,slot_1")]
    assert extra_restore_names(["name", "fc_slot_1"]) == expected


def test_equal_configs_merge() -> None:
    configs = {
        "uid": generate_test_hash_table_config(4),
        "gid": generate_test_hash_table_config(8, learning_rate=0.5),
        "cid": generate_test_hash_table_config(8, learning_rate=0.5),
        "fc_slot_0": generate_test_hash_table_config(8, learning_rate=0.25),
    }
    configs["gid"].extra_restore_names.append("groups")
    merged = merge_tables(configs)
    assert [one.features for one in merged] == [("cid", "gid"), ("fc_slot_0",), ("uid",)]
    assert merged[0].name == "c4a398dea30b21551ae4c09454001dba"
    assert [one.config.extra_restore_names for one in merged] == [["groups"], ["cde3ba88ba62b682f84241b273f8100c"], []]
    assert merged[0].config == configs["cid"]
    assert configs["cid"].extra_restore_names == []


def test_a_table_of_no_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one feature"):
        merged_table_name([])
    assert merge_tables({}) == []
