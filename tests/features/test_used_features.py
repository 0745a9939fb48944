"""Features that are said to be used."""

import pytest

from monolith.features import (
    FeatureList,
    UsedFeatures,
    add_feature,
    add_feature_by_fids,
    get_valid_features,
    is_example_batch,
    make_fid_v1,
    make_fid_v2,
    use_example_batch,
)
from monolith.features.used_features import PROCESS_FEATURES

FEATURES = FeatureList.parse_text(
    """
    feature_name=fc_user slot=1
    feature_name=fc_item slot=200
    feature_name=fc_user-fc_item slot=300
    feature_name=f_item_again slot=200
    """
)


@pytest.fixture
def process_features():
    use_example_batch(FEATURES)
    yield
    PROCESS_FEATURES.begin(None, example_batch=False)


def test_names_and_slots_become_the_names_of_the_list_once_and_in_order() -> None:
    used = UsedFeatures(FEATURES)
    used.add("user-item")
    used.add(["user", 200, "fc_user", "__LABEL__"])
    used.add(7)
    assert used.names() == ["fc_user-fc_item", "fc_user", "fc_item", "__LABEL__", "slot_7"]


def test_fids_name_every_feature_of_their_slot() -> None:
    used = UsedFeatures(FEATURES)
    used.add_by_fids([make_fid_v2(200, 5), make_fid_v2(1, 9)])
    assert used.names() == ["fc_item", "f_item_again", "fc_user"]
    used = UsedFeatures(FEATURES)
    used.add_by_fids(make_fid_v1(300, 5), fid_version=1)
    assert used.names() == ["fc_user-fc_item"]


def test_a_fid_of_no_feature_is_named_and_nothing_is_added() -> None:
    fid = make_fid_v2(2, 1)
    for used in (UsedFeatures(FEATURES), UsedFeatures()):
        with pytest.raises(LookupError, match=f"Cannot find feature name for fid: {fid}"):
            used.add_by_fids([fid])
        assert used.names() == []


def test_the_functions_of_the_process(process_features: None) -> None:
    assert is_example_batch()
    add_feature(["user"])
    add_feature_by_fids([make_fid_v2(300, 1)])
    assert get_valid_features() == ["fc_user", "fc_user-fc_item"]
    use_example_batch(FEATURES)
    assert get_valid_features() == []


def test_other_records_are_read_whole() -> None:
    assert not is_example_batch()
    add_feature("user")
    add_feature_by_fids([make_fid_v2(2, 1)])
    assert get_valid_features() == []
