"""Words that mark a sentence one has to read twice: the pages have none, the source no more than are listed here."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PHRASES = ("told of", "heard", "so many", "whoever", "such a one", "all the same", "live by", "lives by", "of those")
# A phrase may go on in the next line, behind the mark of a comment.
GAP = r"(?:\s+(?:#|//)?\s*)"
STOP = re.compile(r"\b(?:" + "|".join(phrase.replace(" ", GAP) for phrase in PHRASES) + r")\b", re.IGNORECASE)

# File -> number of stop words that it still has. The numbers only go down; a clean file has no line here.
ALLOWED: dict[str, int] = {}

FOLDERS = [
    ROOT / "monolith",
    *sorted(path for path in (ROOT / "monolith").iterdir() if path.is_dir() and path.name != "__pycache__"),
    ROOT / "csrc",
]


def sources(folder: Path) -> list[Path]:
    """Return the Python and C++ files of a folder; of `monolith/` itself, only the files beside its packages."""
    paths = folder.glob("*") if folder == ROOT / "monolith" else folder.rglob("*")
    return sorted(path for path in paths if path.suffix in {".py", ".h", ".cpp"})


def found_in(path: Path) -> list[str]:
    """Return the places of stop words, such as "README.md:12: so many"."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT).as_posix()
    return [f"{name}:{text.count(chr(10), 0, one.start()) + 1}: {one[0]}" for one in STOP.finditer(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_have_no_stop_words(page):
    assert not found_in(page), "write subject, verb, object, and the common word"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_sources_have_no_new_stop_words(folder):
    found = {path.relative_to(ROOT).as_posix(): found_in(path) for path in sources(folder)}
    too_many = [place for name, places in found.items() if len(places) > ALLOWED.get(name, 0) for place in places]
    assert not too_many, "write subject, verb, object, and the common word"


def test_the_walk_finds_the_sources_and_the_allowance_names_files():
    names = {path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in sources(folder)}
    assert {"monolith/__init__.py", "monolith/train/run.py", "csrc/table/row_table.h"} <= names
    assert set(ALLOWED) <= names, "these files are gone; remove their lines"


@pytest.mark.parametrize("text", ["Whoever asks", "it is told\n    of saves", "# so\n# many rows", "// of\n// those"])
def test_a_stop_word_is_noticed(text):
    assert STOP.search(text)


@pytest.mark.parametrize("text", ["overheard", "told often", "so manyfold", "the ones of thousands"])
def test_other_words_are_not(text):
    assert not STOP.search(text)
