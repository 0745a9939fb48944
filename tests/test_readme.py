"""The code blocks of README.md and docs/ run, and print what the page says they print.

The Python blocks of a page share one namespace, in order. A `text` or `output` block right after a Python block is its
output, exactly. A `python` block that is not meant to run carries another word, such as `python-sketch`.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\s*^```(?:text|output)\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def run_blocks(text: str, name: str) -> None:
    """Run the Python blocks of a page and compare their output with what the page shows."""
    scope: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        line = text[: block.start("code")].count("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            # The blank lines make a traceback show the page's own line numbers.
            exec(compile("\n" * line + block["code"], name, "exec"), scope)
        if block["output"] is not None:
            assert printed.getvalue() == block["output"], f"{name}:{line}: the block printed something else"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_blocks(page.read_text(encoding="utf-8"), str(page))


def test_the_blocks_of_a_page_share_a_namespace_and_their_output_is_compared():
    page = "```python\nx = 1\n```\n\n```python\nprint(x + 1)\n```\n\n```text\n{}\n```\n"
    run_blocks(page.format(2), "page")
    with pytest.raises(AssertionError, match="page:5"):
        run_blocks(page.format(3), "page")
