"""Every message of docs/faq.md is one that the code can print."""

import ast
import re
from functools import cache

import pytest

from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
MESSAGES = [block.strip() for block in re.findall(r"^```text\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)]
VALUE = "\0"


@cache
def texts_of_the_source() -> list[str]:
    """Return every text of the package, with a mark in the place of each value."""
    found = []
    for path in (ROOT / "monolith").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [one.value if isinstance(one, ast.Constant) else VALUE for one in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def can_be_printed(message: str) -> bool:
    """Return whether a text of the source has the words of a message, in order, with a value for each `...`."""
    words = f"{VALUE}+".join(re.escape(part) for part in message.split("..."))
    # Dots at an end stand for any rest; the source may itself have dots in a text.
    pattern = re.compile(words.strip(f"{VALUE}+").replace(f"{VALUE}+", rf"(?:{VALUE}.*|\.\.\.)"))
    return any(pattern.search(text) for text in texts_of_the_source())


@pytest.mark.parametrize("message", MESSAGES)
def test_the_code_can_print(message):
    assert can_be_printed(message), "no text of monolith/ has these words; bring docs/faq.md up to date"
    assert len(message.replace("...", "")) > 10, "too short to say which error it is"


def test_other_messages_are_noticed():
    assert len(MESSAGES) > 20
    assert not can_be_printed("columns must be of two lengths, got ...")
    assert not can_be_printed("columns must be of one length, got seven")
    assert not can_be_printed("columns must ... one length")
