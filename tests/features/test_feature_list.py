"""Feature lists: read, looked up, checked and written."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monolith.features import Cache, Feature, FeatureList, Feed, make_fid_v1, make_fid_v2

TEXT = """
# what a model is made of
column_name: uid, gid, label
cache_column: gid

feed_name=user shared=true feature_id=7
cache_name=items cache_column=gid capacity=1000 timeout=60 cache_type=lru cache_key_class=Gid
feature_name=fc_user depend=uid method=Direct slot=1, feature_version=2 shared=yes need_raw=0
feature_name=f_item depend=gid method=Direct; slot=2 args=1, 2 ,x cache_keys=gid
feature_name=fc_user-f_item depend=f_uid,gid method=Combine slot=3 input_optional=true,no feature_group=a,b feature_id=9
feature_name=plain
feature_name=fc_other_user depend=uid slot=1
"""


@pytest.fixture
def features() -> FeatureList:
    return FeatureList.parse_text(TEXT)


def test_every_kind_of_line(features):
    assert features.column_name == ("uid", "gid", "label")
    assert features.cache_column == "gid"
    assert features.feeds == {"user": Feed(feed_name="user", shared=True, feature_id=7)}
    assert features.caches == {
        "items": Cache(
            cache_name="items",
            cache_column="gid",
            capacity=1000,
            timeout=60,
            cache_type="lru",
            cache_key_class="Gid",
        )
    }
    assert [feature.feature_name for feature in features] == [
        "fc_user",
        "f_item",
        "fc_user-f_item",
        "plain",
        "fc_other_user",
    ]
    assert len(features) == 5


def test_fields_of_a_feature(features):
    user, item, cross = features["fc_user"], features["f_item"], features["fc_user-f_item"]
    assert user == Feature(
        feature_name="fc_user", depend=("uid",), method="Direct", slot=1, feature_version=2, shared=True
    )
    assert (item.method, item.args, item.cache_keys) == ("Direct", ("1", "2", "x"), ("gid",))
    assert (cross.input_optional, cross.feature_group, cross.feature_id) == ((True, False), ("a", "b"), 9)
    assert (cross.name, cross.depend_strip_prefix) == ("user-item", ("uid", "gid"))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("fc_user", "fc_user"),
        ("user", "fc_user"),
        ("item", "f_item"),
        ("user-item", "fc_user-f_item"),
        ("fc_user-item", "fc_user-f_item"),
        ("plain", "plain"),
        (3, "fc_user-f_item"),
        (1, "fc_user"),
    ],
)
def test_lookup(features, asked, found):
    assert features[asked].feature_name == found
    assert features.get(asked) is features[asked]
    assert asked in features
    assert features.get_feature_name_and_slot(asked) == (found, features[found].slot)


@pytest.mark.parametrize("asked", ["nobody", 77, "f_user", "-".join("abcdefghijkl")])
def test_no_such_feature(features, asked):
    with pytest.raises(LookupError, match=f"^there is no feature {asked}$"):
        features[asked]
    assert features.get(asked) is None
    assert features.get(asked, "nothing") == "nothing"
    assert asked not in features


def test_several_features_of_a_slot(features):
    assert [feature.feature_name for feature in features.get_with_slot(1)] == ["fc_user", "fc_other_user"]
    assert features.get_with_slot(50) == []


def test_names_of_fids(features):
    assert features.names_of_fids([make_fid_v2(2, 5), make_fid_v2(1, 6), make_fid_v2(2, 7)]) == [
        "f_item",
        "fc_user",
        "fc_other_user",
    ]
    assert features.names_of_fids([make_fid_v1(3, 5)], fid_version=1) == ["fc_user-f_item"]
    fid = make_fid_v2(60, 1)
    with pytest.raises(LookupError, match=f"^Cannot find feature name for fid: {fid}$"):
        features.names_of_fids([fid])


def test_stripped_names(features):
    stripped = FeatureList.parse_text(TEXT, use_old_name=False)
    assert set(stripped.features) == {"user", "item", "user-item", "plain", "other_user"}
    assert stripped["user"] == features["fc_user"]


def test_what_is_written_is_read_again(features, tmp_path):
    assert FeatureList.parse_text(features.to_text()) == features
    path = tmp_path / "features.conf"
    features.write(path)
    assert FeatureList.parse(path) == features
    assert FeatureList.parse_text("") == FeatureList()


def test_a_file_is_read_once_while_it_stays_the_same(tmp_path):
    path = tmp_path / "features.conf"
    path.write_text(TEXT)
    first = FeatureList.parse(path)
    assert FeatureList.parse(str(path)) is first
    path.write_text("feature_name=only")
    os.utime(path, ns=(1, 1))
    assert len(FeatureList.parse(path)) == 1
    with pytest.raises(FileNotFoundError):
        FeatureList.parse(tmp_path / "none")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("feature_name=a slots=1", "Feature has no field 'slots'"),
        ("slot=1", "Feature needs 'feature_name'"),
        ("feature_name=a slot=one", "slot must be a whole number, got 'one'"),
        ("feature_name=a shared=perhaps", "shared must be one of .*, got 'perhaps'"),
        ("feature_name=a feature_name=b", "'feature_name' occurs twice"),
        ("some words", "a line must consist of key=value pairs"),
        ("words feature_name=a", "a line must consist of key=value pairs"),
        ("feed_name=a capacity=1", "Feed has no field 'capacity'"),
        ("cache_name=a slot=1", "Cache has no field 'slot'"),
        ("feature_name=twice\nfeature_name=twice", "feature 'twice' is there twice"),
    ],
)
def test_bad_lines_name_file_and_line(line, message, tmp_path):
    path = tmp_path / "bad.conf"
    path.write_text(f"# comment\n\n{line}\n")
    number = 3 + line.count("\n")
    with pytest.raises(ValueError, match=rf"bad\.conf, line {number}: {message}"):
        FeatureList.parse(path)


def test_validation(features):
    features.validate()
    for line, message in (
        ("feature_name=a slot=40000", "slot should be less than 32768, while got 40000"),
        ("feature_name=a depend=uid,gid input_optional=true", "about 1 inputs, but it depends on 2"),
        ("column_name: uid\nfeature_name=a depend=f_gid", "depends on 'f_gid', which column_name does not list"),
    ):
        with pytest.raises(ValueError, match=f"feature 'a': .*{message}"):
            FeatureList.parse_text(line).validate()


WORD = st.from_regex(r"[A-Za-z_][\w.:/-]{0,8}", fullmatch=True)
WORDS = st.lists(WORD, max_size=3).map(tuple)
FEATURES = st.builds(
    Feature,
    feature_name=WORD,
    depend=WORDS,
    method=st.none() | WORD,
    slot=st.none() | st.integers(0, 40000),
    args=WORDS,
    feature_version=st.none() | st.integers(-5, 5),
    shared=st.booleans(),
    cache_keys=WORDS,
    need_raw=st.booleans(),
    feature_id=st.none() | st.integers(),
    input_optional=st.lists(st.booleans(), max_size=3).map(tuple),
    feature_group=WORDS,
)


@given(FEATURES)
def test_every_feature_survives_its_line(feature):
    assert Feature.from_line(feature.to_line()) == feature


@pytest.mark.parametrize("method", ["a b=c", "x;", " x", "a\nb", "y,"])
def test_what_would_be_read_as_something_else_is_not_written(method):
    with pytest.raises(ValueError, match="cannot be written as a value"):
        Feature(feature_name="a", method=method).to_line()
    with pytest.raises(ValueError, match="cannot be written as a"):
        Feature(feature_name="a", args=("x,y",)).to_line()
