"""The code and the commands of README.md and docs/ run, and print what the page says; `page.py` has the rules."""

import contextlib
import tempfile
from pathlib import Path

import pytest
import torch

from tests.docs.page import FRONT_DOOR, PAGES, agrees, name_of
from tests.docs.run_page import run_page
from tests.docs.shell import write_programs


@pytest.mark.parametrize("page", [page for page in PAGES if page not in FRONT_DOOR], ids=name_of)
def test_page(page, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    threads = torch.get_num_threads()
    try:
        run_page(page.read_text(encoding="utf-8"), str(page), tmp_path / "here", write_programs(tmp_path / "bin"))
    finally:
        torch.set_num_threads(threads)


def run_text(text: str, tmp_path: Path) -> Path:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    with contextlib.chdir(folder):
        run_page(text, "page", folder, write_programs(folder / "bin"))
    return folder


def test_the_blocks_of_a_page_share_a_namespace_and_their_output_is_compared(tmp_path):
    page = "```python\nx = 1\n```\n\n```python\nprint(x + 1)\n```\n\n```text\n{}\n```\n"
    run_text(page.format(2), tmp_path)
    with pytest.raises(AssertionError, match=r"page:6 printed:\n\s*2"):
        run_text(page.format(3), tmp_path)


def test_files_and_commands_share_a_folder_and_a_shell(tmp_path):
    page = "```csv file=data/a.csv\n1,2\n```\n```console\n$ cd data\n$ cat \\\n    a.csv\n{}\n```\n"
    with pytest.raises(AssertionError, match=r"page:6 printed:\n\s*1,2"):
        run_text(page.format("3"), tmp_path)
    run_text(page.format("1,2"), tmp_path)


def test_a_command_that_fails_is_an_error_of_the_page(tmp_path):
    with pytest.raises(AssertionError, match="page:2 failed with status 1"):
        run_text("```console\n$ false\n```\n", tmp_path)


def test_what_a_page_started_ends_with_it(tmp_path):
    folder = run_text("```console\n$ sleep 100 &\n$ echo $! > pid\n```\n", tmp_path)
    command_line = Path("/proc", (folder / "pid").read_text().strip(), "cmdline")
    # A process that ended has none, though its number may stay until somebody asks for its status.
    assert not command_line.exists() or not command_line.read_bytes()


@pytest.mark.parametrize(
    ("printed", "shown", "is_right"),
    [
        ("a 1 b\n", "a ... b\n", True),
        ("a 1\n2 b\n", "a ... b\n", False),
        ("a\nb\nc\nd\n", "a\n...\nd\n", True),
        ("a\nb\n", "a\n", False),
        ("", "", True),
        ("a", "a\n", True),
        ("a  \nb", "a\nb\n", True),
        ("a.c\n", "abc\n", False),
    ],
)
def test_dots_stand_for_what_varies(printed, shown, is_right):
    assert agrees(printed, shown) == is_right
