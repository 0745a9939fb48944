"""A chain of snapshots, ways to damage it, and what it restores to."""

import copy
import json
import random
from pathlib import Path

from monolith._core import native
from monolith.checkpoint import load_snapshot
from monolith.embedding import MultiTable
from monolith.errors import CorruptFileError, PlanMismatchError
from monolith.model import make_tables
from tests.checkpoint.made_snapshots import rewrite_manifest
from tests.checkpoint.small_state import PLAN, State, content_of, rows_of

REFUSED = (CorruptFileError, FileNotFoundError, PlanMismatchError)
WAYS = ("file deleted", "files swapped", "file added", "cut", "longer", "zeros", "shorter", "flipped")
EVIL = [-1, 0, 1, 1 << 31, 1 << 63, 1 << 70, 1.5, True, None, "", "x" * 3000, "../..", "/etc/passwd", [], {}, [[]] * 50]


def made_chain(folder: Path) -> tuple[dict[str, bytes], dict[str, object]]:
    """Write a snapshot and two deltas on it; return the files, and what each of the three restores to."""
    state = State()
    state.train(4)
    trackers = state.track()
    links = [state.freeze(trackers=trackers).write_snapshot(folder)]
    held = {links[0].name: held_by(state)}
    for _ in range(2):
        state.train(2)
        links.append(state.freeze(trackers=trackers).write_delta(links[-1]))
        held[links[-1].name] = held_by(state)
    return content_of(folder), held


def held_by(state: State) -> object:
    """Return everything that a snapshot of a state has to bring back."""
    stream, extra = {"0": state.step * 10}, {"note": state.step}
    return rows_of(state.tables), state.dense.tolist(), state.step, stream, extra


def restored(path: Path, tables: MultiTable | None = None) -> object:
    """Restore a link of the chain, into new tables if none are given; return what `held_by` returned."""
    tables = tables or make_tables(PLAN)
    snapshot = load_snapshot(path, plan=PLAN, tables=tables)
    weight = snapshot.dense["weight"].tolist() if "weight" in snapshot.dense else None
    return rows_of(tables), weight, snapshot.step, snapshot.stream, snapshot.extra


def write(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def damage(files: dict[str, bytes], dice: random.Random) -> str:
    """Damage the files as accidents do; return how."""
    name = dice.choice(sorted(files))
    content = bytearray(files[name])
    place = dice.randrange(len(content) + 1)
    match way := dice.choice(WAYS):
        case "file deleted":
            del files[name]
            return way
        case "files swapped":
            other = dice.choice(sorted(files))
            files[name], files[other] = files[other], files[name]
            return way
        case "file added":
            files[name + dice.choice([".tmp", "-00000-of-00001", "x"])] = files[name]
            return way
        case "cut":
            del content[place:]
        case "longer":
            content += dice.randbytes(dice.randrange(1, 100))
        case "zeros":
            content[place : place + 64] = bytes(64)
        case "shorter":
            del content[place : place + dice.randrange(1, 64)]
        case _:
            for _ in range(dice.randrange(1, 4)):
                content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    files[name] = bytes(content)
    return way


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


def craft(folder: Path, dice: random.Random) -> str:
    """Change a snapshot as somebody would who knows how to make its checksums right; return how."""
    own = sorted(name for name in content_of(folder) if name != "manifest.json")
    match dice.randrange(4):
        case 0:  # its checksum is right, what it says is not
            rewrite_manifest(folder, lambda values: {**values, **dict([evil_item(values, dice)])})
            return "crafted manifest"
        case 1:
            rewrite_manifest(folder, lambda values: values | {"plan": evil_text(values["plan"], dice)})
            return "crafted plan"
        case 2:
            name = dice.choice([one for one in own if one.endswith(".json")])
            (folder / name).write_text(evil_text((folder / name).read_text(), dice))
            reseal(folder, name)
            return "crafted JSON"
        case _:
            name = dice.choice(own)
            one = {name: (folder / name).read_bytes()}
            damage(one, dice)
            (folder / name).write_bytes(one.get(name, b""))
            reseal(folder, name)
            return "damaged and sealed again"
