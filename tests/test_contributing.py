"""CONTRIBUTING.md names files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FOLDERS = "csrc|monolith|tests|docs|tools|benchmarks"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./*]+)`")
RECIPES = ("A row optimizer", "A source", "An endpoint", "A setting", "A layer")


def missing(text: str) -> list[str]:
    """Return the paths between backticks that match nothing; NAME stands for any name."""
    return [path for path in PATH.findall(text) if not list(ROOT.glob(path.replace("NAME", "*").rstrip("/")))]


def test_every_path_exists() -> None:
    assert len(PATH.findall(TEXT)) > 30
    assert not missing(TEXT)
    assert missing("`csrc/optim/nothing.h` and `monolith/data/`") == ["csrc/optim/nothing.h"]


def test_every_recipe_names_files_and_a_test() -> None:
    found = dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^##)", TEXT, re.M | re.S))
    assert tuple(found) == RECIPES
    for name, recipe in found.items():
        paths = PATH.findall(recipe)
        assert any(path.startswith("tests/") for path in paths), name
        assert len(paths) > 3, name
