"""Snapshots made by an enemy: their checksums are right, what they say is not."""

import json
import warnings

import pytest

from monolith.checkpoint import latest_state, load_snapshot
from monolith.checkpoint.format.manifest import MANIFEST_NAME, read_manifest
from monolith.checkpoint.inspect import diff_snapshots, summarize
from monolith.checkpoint.inspect.parquet import export_parquet
from monolith.errors import CorruptFileError
from monolith.model import make_tables
from tests.checkpoint.made_snapshots import PLAN, rewrite_manifest, save

ENTRY = {"bytes": 1, "crc32c": 0}


def with_file(name, entry=None):
    return lambda values: values["files"].__setitem__(name, entry or ENTRY)


def set_to(**changes):
    return lambda values: values.update(changes)


HOSTILE = {
    "parent": with_file("../secret"),
    "parent inside": with_file("tables/../../secret"),
    "absolute": with_file("/etc/passwd"),
    "backslashes": with_file("..\\secret"),
    "itself": with_file("."),
    "no name": with_file(""),
    "nul": with_file("a\0b"),
    "long name": with_file("x" * 300),
    "long path": with_file("/".join(["x" * 200] * 10)),
    "negative size": with_file("a", {"bytes": -1, "crc32c": 0}),
    "absurd size": with_file("a", {"bytes": 1 << 80, "crc32c": 0}),
    "size is a text": with_file("a", {"bytes": "1", "crc32c": 0}),
    "checksum too wide": with_file("a", {"bytes": 1, "crc32c": 1 << 32}),
    "unknown field": with_file("a", {"bytes": 1, "crc32c": 0, "run": "me"}),
    "large but missing": with_file("a", {"bytes": (1 << 63) - 1, "crc32c": 0}),
    "negative step": set_to(step=-1),
    "absurd step": set_to(step=1 << 70),
    "step is true": set_to(step=True),
    "step is a float": set_to(step=1.5),
    "plan is a list": set_to(plan=[]),
    "extra is a list": set_to(extra=[]),
    "files is a list": set_to(files=[]),
    "no generation": lambda values: values.pop("generation") and None,
    "another format": set_to(format=0),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_it_is_refused_and_the_one_before_used(tmp_path, change):
    good, bad = save(tmp_path, 1), save(tmp_path, 2)
    (tmp_path / "secret").write_text("x")
    rewrite_manifest(bad, change)
    tables = make_tables(PLAN)
    with pytest.raises(CorruptFileError):
        load_snapshot(bad, plan=PLAN, tables=tables)
    assert len(tables["uid"]) == 0
    with pytest.raises(CorruptFileError):
        summarize(bad)
    with pytest.warns(UserWarning, match="model.ckpt-2 is not used"):
        assert latest_state(tmp_path) == good


@pytest.mark.parametrize("text", ["[" * 100_000, "{" + '"a":{' * 50_000, "", "[]", "null", '{"crc32c": ' + "9" * 5000])
def test_what_is_no_manifest_is_refused(tmp_path, text):
    path = save(tmp_path, 1)
    (path / MANIFEST_NAME).write_text(text)
    with pytest.raises(CorruptFileError, match="cannot be used"):
        read_manifest(path)


def test_a_manifest_too_large_is_not_even_read(tmp_path):
    path = save(tmp_path, 1)
    with open(path / MANIFEST_NAME, "r+b") as file:
        file.truncate(1 << 40)  # a hole: takes no room on the disk, would take a terabyte in memory
    with pytest.raises(CorruptFileError, match="at most"):
        read_manifest(path)


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    path = save(tmp_path, 1)
    secret = tmp_path / "secret"
    (path / "stream.json").rename(secret)
    (path / "stream.json").symlink_to(secret)
    with pytest.raises(CorruptFileError, match="outside the snapshot"):
        load_snapshot(path, plan=PLAN, tables=make_tables(PLAN))
    (path / "stream.json").unlink()
    (path / "stream.json").symlink_to(path / "stream.json")
    with pytest.raises(CorruptFileError):
        load_snapshot(path, plan=PLAN, tables=make_tables(PLAN))


def edit_plan(change):
    def rewrite(values):
        plan = json.loads(values["plan"])
        change(plan)
        values["plan"] = json.dumps(plan)

    return rewrite


def rename_table(plan):
    plan["tables"][0]["name"] = plan["features"][0]["table"] = "../../escaped"


def widen(plan):
    plan["tables"][0]["slices"][0]["segment"]["dimSize"] = (1 << 31) - 1


def deepen(values):
    values["plan"] = "[" * 100_000


@pytest.mark.parametrize(
    "change", [edit_plan(rename_table), edit_plan(widen), deepen], ids=["name of a table", "absurd width", "deep"]
)
def test_a_hostile_plan_neither_escapes_nor_allocates(tmp_path, change):
    good, bad = save(tmp_path / "model", 1), save(tmp_path / "model", 2)
    rewrite_manifest(bad, change)
    with pytest.raises(ValueError):
        export_parquet(bad, tmp_path / "out" / "rows")
    with pytest.raises(ValueError):
        diff_snapshots(good, bad)
    assert not list(tmp_path.glob("**/escaped*"))


def test_a_good_one_is_still_good(tmp_path):
    path = save(tmp_path, 1)
    rewrite_manifest(path, lambda values: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert latest_state(tmp_path) == path
    assert summarize(path).num_rows == 1
