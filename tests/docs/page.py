"""A page of the documentation as steps: code to run, files to write, commands to type, each with the output shown.

- A `python` block runs; the blocks of a page share one namespace. A `text` block right after it is its output.
- A block with `file=NAME` after its language becomes that file, in the folder where the page runs.
- A `console` block has commands behind `$ ` with their output. A page has one shell. Every command must succeed.
- In an output, `...` stands for any text of its line, and a line `...` for any lines. Spaces at its end do not count.
- Ports of the list below stand for free ones.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FRONT_DOOR = [
    *(ROOT / "docs" / "tutorials" / f"{name}.md" for name in ("from-csv-to-curl", "live", "only-the-table")),
    ROOT / "docs" / "coming-from.md",
]
"""These install packages and take a minute: tests/e2e/test_front_door.py runs them, one after the other in a folder."""

PORTS = ("7001", "8500", "9092")

_BLOCK = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```$\n?", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Code:
    """Python to run in the namespace of the page."""

    line: int
    text: str
    output: str | None
    """What it prints; None if the page does not say."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that the page asks its reader to write."""

    line: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, and what the page says it prints."""

    line: int
    text: str
    output: str


def name_of(page: Path) -> str:
    """Return what a test calls a page."""
    return page.relative_to(ROOT).as_posix()


def steps_of(page: str) -> list[Code | File | Command]:
    """Return the steps of a page in order; blocks in other languages are only shown.

    >>> steps_of("```console\\n$ ls\\na b\\n```\\n")
    [Command(line=2, text='ls', output='a b\\n')]
    """
    found: list[Code | File | Command] = []
    blocks = list(_BLOCK.finditer(page))
    for number, block in enumerate(blocks):
        line = page.count("\n", 0, block.start("body")) + 1
        language, _, file_name = block["info"].partition(" file=")
        if file_name:
            found.append(File(line, file_name, block["body"]))
        elif language == "python":
            after = blocks[number + 1] if number + 1 < len(blocks) else None
            follows = after is not None and not page[block.end() : after.start()].strip()
            shown = after["body"] if follows and after["info"] in ("text", "output") else None
            found.append(Code(line, block["body"], shown))
        elif language == "console":
            for one in _COMMAND.finditer(block["body"]):
                found.append(Command(line + block["body"].count("\n", 0, one.start()), one[1], one[2]))
    return found


def agrees(printed: str, shown: str) -> bool:
    """Return whether an output is the one that a page shows.

    >>> agrees("step 7: loss 0.25\\n", "step 7: loss ...\\n"), agrees("7\\n8\\n", "7...\\n")
    (True, False)
    """
    printed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    lines = [
        r"(?:.*\n)*" if line == "..." else "[^\\n]*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in map(str.rstrip, shown.splitlines())
    ]
    return re.fullmatch("".join(lines), printed) is not None
