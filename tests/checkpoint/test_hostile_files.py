"""Checkpoints made by an enemy ask for a lot of memory; they get an error."""

import json
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from monolith._core import native
from monolith.checkpoint import compact, load_snapshot, restore_tables
from monolith.checkpoint.inspect import summarize
from monolith.embedding import Table
from monolith.model import make_tables
from tests.checkpoint.forked import in_child
from tests.checkpoint.made_snapshots import rewrite_manifest
from tests.checkpoint.small_state import PLAN, State

ROOM = 300 << 20
"""Memory a process may take beside what it has; much less than any of these files asks for."""


def limited(work: Callable[[], object]) -> str:
    """What happens in a process that has little room for more."""

    def with_limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        work()

    return in_child(with_limit)


@pytest.fixture
def chain(tmp_path):
    state = State()
    state.train(4)
    trackers = state.track()
    base = state.freeze(trackers=trackers).write_snapshot(tmp_path)
    state.train(2)
    return base, state.freeze(trackers=trackers).write_delta(base)


def replace_file(folder: Path, name: str, content: bytes, *, hole: int = 0) -> None:
    """Put another file into a snapshot, with the checksum that its manifest must say."""
    with open(folder / name, "wb") as file:
        file.write(content)
        file.truncate(max(hole, len(content)))
    whole = (folder / name).read_bytes()
    entry = {"bytes": len(whole), "crc32c": native.crc32c(whole)}
    rewrite_manifest(folder, lambda values: values["files"].__setitem__(name, entry))


def tensors(header: object, data: bytes = b"", *, claimed: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return (len(text) if claimed is None else claimed).to_bytes(8, "little") + text + data


def tensor(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


FILES = {
    "header longer than the file": tensors({}, claimed=(1 << 63) - 1),
    "header of all memory": tensors({}, claimed=1 << 40),
    "absurd shape": tensors({"uid": tensor("I64", [1 << 40], 0, 1 << 43)}),
    "shape that overflows": tensors({"uid": tensor("I64", [1 << 32, 1 << 32], 0, 0)}),
    "data outside the file": tensors({"uid": tensor("I64", [2], 1 << 60, (1 << 60) + 16)}, bytes(16)),
    "no header": b"",
    "not JSON": (4).to_bytes(8, "little") + b"[[[[",
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
@pytest.mark.parametrize("name", ["dense.safetensors", "erased.safetensors"])
def test_tensor_files(chain, name, content):
    _, delta = chain
    replace_file(delta, name, content)
    told = limited(lambda: load_snapshot(delta, plan=PLAN, tables=make_tables(PLAN)))
    assert "CorruptFileError" in told.splitlines()[-1], told


@pytest.mark.parametrize(
    "header, data",
    [
        ({"uid": tensor("F32", [2], 0, 8)}, bytes(8)),
        ({"uid": tensor("I64", [1, 1], 0, 8)}, bytes(8)),
        ({"uid": tensor("I64", [], 0, 8)}, bytes(8)),
    ],
    ids=["floats", "a matrix", "a number"],
)
def test_what_is_erased_must_be_ids(chain, header, data):
    _, delta = chain
    replace_file(delta, "erased.safetensors", tensors(header, data))
    told = limited(lambda: load_snapshot(delta, plan=PLAN, tables=make_tables(PLAN)))
    assert "CorruptFileError" in told and "not a list of ids" in told, told
    told = limited(lambda: restore_tables(delta, {"uid": Table(PLAN.tables()["uid"])}))
    assert "CorruptFileError" in told and "not a list of ids" in told, told


@pytest.mark.parametrize("name", ["stream.json", "delta.json"])
def test_json_that_is_too_large_is_not_read(chain, name):
    _, delta = chain
    replace_file(delta, name, b"{}", hole=(64 << 20) + 1)
    told = limited(lambda: load_snapshot(delta, plan=PLAN, tables=make_tables(PLAN)))
    assert "CorruptFileError" in told and "at most 67108864" in told, told


@pytest.mark.parametrize("name", ["stream.json", "delta.json"])
@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "null", '{"base": {}, "x": 1}', "\xff"])
def test_json_that_is_something_else(chain, name, text):
    _, delta = chain
    replace_file(delta, name, text.encode("latin-1"))
    told = limited(lambda: load_snapshot(delta, plan=PLAN, tables=make_tables(PLAN)))
    assert told == "" if name == "stream.json" and "base" in text else "CorruptFileError" in told, told


def test_a_number_in_a_name_makes_nobody_count(chain):
    base, delta = chain
    far = base.with_name("model.ckpt-4.delta-99999999999999")
    delta.rename(far)
    told = limited(lambda: load_snapshot(far, plan=PLAN, tables=make_tables(PLAN)))
    assert "CorruptFileError" in told and "at most 100000" in told, told


@pytest.mark.parametrize("field", ["filterCapacity", "dimSize"])
def test_a_plan_that_asks_for_too_much(chain, field):
    base, delta = chain

    def change(values: dict) -> None:
        plan = json.loads(values["plan"])
        _set_everywhere(plan, field, (1 << 31) - 1 if field == "dimSize" else 1 << 45)
        values["plan"] = json.dumps(plan)

    for folder in (base, delta):
        rewrite_manifest(folder, change)
    replace_file(delta, "delta.json", _link_to(base, delta))
    for work in (
        lambda: compact(base.parent),
        lambda: restore_tables(delta, {"uid": Table(PLAN.tables()["uid"])}),
        lambda: load_snapshot(delta, plan=PLAN, tables=make_tables(PLAN)),
        lambda: summarize(base),
    ):
        told = limited(work)
        assert told == "" or "CorruptFileError" in told or "ValueError" in told, told


def _set_everywhere(values: object, name: str, value: int) -> None:
    if isinstance(values, dict):
        for key in values:
            if key == name or key == "".join("_" + one.lower() if one.isupper() else one for one in name):
                values[key] = value
            else:
                _set_everywhere(values[key], name, value)
    elif isinstance(values, list):
        for one in values:
            _set_everywhere(one, name, value)


def _link_to(base: Path, delta: Path) -> bytes:
    link = json.loads((delta / "delta.json").read_bytes())
    return json.dumps({**link, "previous_crc32c": native.crc32c((base / "manifest.json").read_bytes())}).encode()
