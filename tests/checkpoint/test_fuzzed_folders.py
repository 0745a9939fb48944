"""Snapshots and deltas damaged at random: refused, or restored to what they were. Never anything else."""

import copy
import json
import random
import warnings
from pathlib import Path

import pytest

from monolith._core import native
from monolith.checkpoint import latest_state, load_snapshot
from monolith.checkpoint.inspection import summarize
from monolith.errors import CorruptFileError, PlanMismatchError
from monolith.model import make_tables
from tests.checkpoint.made_snapshots import rewrite_manifest
from tests.checkpoint.small_state import PLAN, State, content_of, rows_of

REFUSED = (CorruptFileError, FileNotFoundError, PlanMismatchError)
EVIL = [-1, 0, 1, 1 << 31, 1 << 63, 1 << 70, 1.5, True, None, "", "x" * 3000, "../..", "/etc/passwd", [], {}, [[]] * 50]


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """The files of a snapshot and two deltas on it, and what each of the three restores to."""
    folder = tmp_path_factory.mktemp("chain")
    state = State()
    state.train(4)
    trackers = state.track()
    links = [state.freeze(trackers=trackers).write_snapshot(folder)]
    rows = {links[0].name: rows_of(state.tables)}
    for _ in range(2):
        state.train(2)
        links.append(state.freeze(trackers=trackers).write_delta(links[-1]))
        rows[links[-1].name] = rows_of(state.tables)
    return content_of(folder), rows


def write(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def damage(files: dict[str, bytes], dice: random.Random) -> None:
    name = dice.choice(sorted(files))
    content = bytearray(files[name])
    place = dice.randrange(len(content) + 1)
    match dice.randrange(8):
        case 0:
            del files[name]
            return
        case 1:
            other = dice.choice(sorted(files))
            files[name], files[other] = files[other], files[name]
            return
        case 2:
            files[name + dice.choice([".tmp", "-00000-of-00001", "x"])] = files[name]
            return
        case 3:
            del content[place:]
        case 4:
            content += dice.randbytes(dice.randrange(1, 100))
        case 5:
            content[place : place + 64] = bytes(64)
        case 6:
            del content[place : place + dice.randrange(1, 64)]
        case _:
            for _ in range(dice.randrange(1, 4)):
                content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    files[name] = bytes(content)


def restore(path: Path) -> object:
    tables = make_tables(PLAN)
    load_snapshot(path, plan=PLAN, tables=tables)
    return rows_of(tables)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_folders_are_refused_or_right(chain, tmp_path, seed):
    files, rows = chain
    dice = random.Random(seed)
    damaged = dict(files)
    for _ in range(dice.randrange(1, 3)):
        damage(damaged, dice)
    write(damaged, tmp_path)
    for name, expected in rows.items():
        try:
            assert restore(tmp_path / name) == expected
        except REFUSED:
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        newest = latest_state(tmp_path)
    # What is called usable can be used.
    assert newest is None or restore(newest) == rows[newest.name]


def evil_change(values: object, dice: random.Random) -> object:
    """Put something senseless somewhere into JSON."""
    if isinstance(values, dict) and values and dice.random() < 0.9:
        name = dice.choice(sorted(values))
        if dice.random() < 0.1:
            values[str(dice.choice(EVIL))] = values.pop(name)
        else:
            values[name] = evil_change(values[name], dice)
        return values
    if isinstance(values, list) and values and dice.random() < 0.8:
        place = dice.randrange(len(values))
        values[place] = evil_change(values[place], dice)
        return values
    return copy.deepcopy(dice.choice(EVIL))


def evil_item(values: dict, dice: random.Random) -> tuple[str, object]:
    name = dice.choice(sorted(values))
    return name, evil_change(values[name], dice)


def evil_text(text: str, dice: random.Random) -> str:
    return json.dumps(evil_change(json.loads(text), dice))


def reseal(folder: Path, name: str) -> None:
    """Tell the manifest of a snapshot what a file is now."""
    content = (folder / name).read_bytes()

    def change(values: dict) -> None:
        values["files"][name] = {"bytes": len(content), "crc32c": native.crc32c(content)}

    rewrite_manifest(folder, change)


def test_files_of_an_older_snapshot_do_not_pass_for_those_of_a_newer_one(chain, tmp_path):
    files, _ = chain
    old, new = "model.ckpt-4.delta-1/", "model.ckpt-4.delta-2/"
    for part in ("filters/", "tables/uid", "tables/mov", "dense", "erased"):
        mixed = {
            name: files[name.replace(new, old)] if name.startswith(new + part) else content
            for name, content in files.items()
        }
        assert mixed != files
        write(mixed, tmp_path / part)
        with pytest.raises(CorruptFileError, match="checksum|bytes"):
            restore(tmp_path / part / "model.ckpt-4.delta-2")


@pytest.mark.parametrize("seed", range(60))
def test_crafted_folders_are_refused_or_harmless(chain, tmp_path, seed):
    files, rows = chain
    dice = random.Random(1000 + seed)
    write(files, tmp_path)
    folder = tmp_path / dice.choice(["model.ckpt-4", "model.ckpt-4.delta-2"])
    own = sorted(name for name in content_of(folder) if name != "manifest.json")
    match dice.randrange(4):
        case 0:  # its checksum is right, what it says is not
            rewrite_manifest(folder, lambda values: {**values, **dict([evil_item(values, dice)])})
        case 1:
            rewrite_manifest(folder, lambda values: values | {"plan": evil_text(values["plan"], dice)})
        case 2:
            name = dice.choice([one for one in own if one.endswith(".json")])
            (folder / name).write_text(evil_text((folder / name).read_text(), dice))
            reseal(folder, name)
        case _:
            name = dice.choice(own)
            one = {name: (folder / name).read_bytes()}
            damage(one, dice)
            (folder / name).write_bytes(one.get(name, b""))
            reseal(folder, name)
    for name in rows:
        try:
            restore(tmp_path / name)
        except REFUSED:
            pass
        try:
            summarize(tmp_path / name)
        except REFUSED:
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            latest_state(tmp_path)
        except CorruptFileError:
            pass  # of a later format, it says
