"""The shape of the source tree: short files, names that say what is inside, folders one can take in at a glance."""

import json
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("monolith", "csrc", "tests", "benchmarks", "examples", "tools")
SUFFIXES = {".py", ".h", ".cpp"}
MAX_LINES = 400
MAX_MODULES_PER_FOLDER = 12
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "lib", "manager"}


ORIGINAL_PATHS = json.loads((ROOT / "tests/golden/names.json").read_text(encoding="utf-8"))


def is_named_by_the_original(path: Path) -> bool:
    """Files at import paths of the original system: neither their names nor their number are ours to choose."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts) in ORIGINAL_PATHS


def is_generated(path: Path) -> bool:
    return "protos" in path.relative_to(ROOT).parts


def sources() -> list[Path]:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    return [path for path in files if not is_generated(path)]


def vague_parts(path: Path) -> set[str]:
    """Words of a file's path below the repository, its folders included, that say nothing."""
    words = {word for part in path.relative_to(ROOT).with_suffix("").parts for word in part.split("_")}
    return words & VAGUE


def test_the_walk_finds_the_sources():
    names = {path.relative_to(ROOT).as_posix() for path in sources()}
    assert {"monolith/__init__.py", "csrc/bind/module.cpp", "tests/test_layout.py"} <= names


def test_no_file_is_too_long():
    length = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert not {str(path.relative_to(ROOT)): lines for path, lines in length.items() if lines > MAX_LINES}


def test_every_file_name_says_what_is_inside():
    assert not [
        str(path.relative_to(ROOT)) for path in sources() if vague_parts(path) and not is_named_by_the_original(path)
    ]


@pytest.mark.parametrize("name", ["monolith/data/utils.py", "csrc/common/a.h", "monolith/table_manager.py"])
def test_a_vague_name_is_noticed(name):
    assert vague_parts(ROOT / name)


def test_no_package_has_too_many_modules():
    modules = Counter(
        path.parent.relative_to(ROOT).as_posix()
        for path in sources()
        if path.suffix == ".py" and path.is_relative_to(ROOT / "monolith") and path.stem != "__init__"
        if not is_named_by_the_original(path)
    )
    assert not {folder: count for folder, count in modules.items() if count > MAX_MODULES_PER_FOLDER}
