"""Every link of every page leads somewhere: to a file of the repository, and to a heading if it names one."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])

LINK = re.compile(r"(?<!!)\[[^\]\n]+(?:\n[^\]\n]+)?\]\(([^)\s]+)\)")
ELSEWHERE = re.compile(r"[a-z]+:")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """Return a page without its code."""
    return re.sub(r"`[^`\n]+`", lambda code: "`" + "x" * (len(code[0]) - 2) + "`", without_blocks(text))


def without_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return the names by which a link reaches the headings of a page; a heading that comes again has a number.

    >>> sorted(anchors("# The `tables`, 2\\n## Rows\\n## Rows\\n"))
    ['rows', 'rows-1', 'the-tables-2']
    """
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", without_blocks(text), flags=re.MULTILINE):
        shown = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        again = 1
        unique = name
        while unique in found:
            unique, again = f"{name}-{again}", again + 1
        found.add(unique)
    return found


@cache
def anchors_of(page: Path) -> set[str]:
    return anchors(page.read_text(encoding="utf-8"))


def broken_links(text: str, page: Path) -> list[str]:
    """Return the links of a page that lead nowhere, such as "README.md:3: docs/gone.md"."""
    broken = []
    for link in LINK.finditer(prose(text)):
        path, _, anchor = link[1].partition("#")
        if ELSEWHERE.match(link[1]):
            continue
        target = (page.parent / path).resolve() if path else page
        known = (
            anchors(text)
            if not path
            else anchors_of(target)
            if target.suffix == ".md" and target.exists()
            else {anchor}
        )
        if not target.is_relative_to(ROOT) or not target.exists() or (anchor and anchor not in known):
            broken.append(f"{name_of(page)}:{text.count(chr(10), 0, link.start()) + 1}: {link[1]}")
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    assert not broken_links(page.read_text(encoding="utf-8"), page)


def test_every_page_of_the_documentation_can_be_reached_from_the_index():
    reached, waiting = set(), [ROOT / "docs" / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            links = [link.partition("#")[0] for link in LINK.findall(prose(page.read_text(encoding="utf-8")))]
            waiting += [(page.parent / link).resolve() for link in links if link and not ELSEWHERE.match(link)]
    assert not [name_of(page) for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in reached]


@pytest.mark.parametrize(
    "link", ["docs/gone.md", "docs/serving.md#gone", "#gone", "../outside.md", "docs/serving.md#limits-1"]
)
def test_a_broken_link_is_noticed(link):
    text = f"# Here\n\nSee\n[this\npage]({link}).\n"
    assert broken_links(text, ROOT / "README.md") == [f"README.md:4: {link}"]


@pytest.mark.parametrize(
    "text", ["[a](#here)", "[a](docs/serving.md#limits)", "[a](https://example.org/#x)", "`[a](gone)`", "[a](docs/)"]
)
def test_other_links_are_not(text):
    assert not broken_links(f"# Here\n\n{text}\n", ROOT / "README.md")
