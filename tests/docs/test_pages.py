"""The code and the commands of README.md and docs/ run, and print what the page says; `page.py` has the rules."""

import contextlib
import io
import re
import socket
from pathlib import Path

import pytest
import torch

from tests.docs.page import PAGES, PORTS, Code, Command, File, agrees, name_of, steps_of
from tests.docs.shell import Shell


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def with_free_ports(page: str) -> str:
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    return re.sub(rf"(?<=[: =])(?:{'|'.join(PORTS)})\b", lambda found: str(ports[found[0]]), page)


def run_page(text: str, name: str, folder: Path, programs: Path) -> None:
    """Run the steps of a page in `folder`, which is the current one, and compare what they print with the page."""
    scope: dict[str, object] = {"__name__": "__main__"}
    with contextlib.ExitStack() as stack:
        shell: Shell | None = None
        for step in steps_of(with_free_ports(text)):
            place = f"{name}:{step.line}"
            if isinstance(step, File):
                (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
                (folder / step.name).write_text(step.text)
            elif isinstance(step, Code):
                printed = printed_by(step, name, scope)
                assert step.output is None or agrees(printed, step.output), f"{place} printed:\n{printed}"
            elif isinstance(step, Command):
                shell = shell or stack.enter_context(Shell(folder, programs))
                status, printed = shell.run(step.text)
                assert status == 0, f"{place} failed with status {status}:\n{printed}"
                assert agrees(printed, step.output), f"{place} printed:\n{printed}"


def printed_by(code: Code, name: str, scope: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        # The blank lines make a traceback show the page's own line numbers.
        exec(compile("\n" * (code.line - 1) + code.text, name, "exec"), scope)
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_page(page, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    threads = torch.get_num_threads()
    try:
        run_page(page.read_text(encoding="utf-8"), str(page), tmp_path / "here", tmp_path / "bin")
    finally:
        torch.set_num_threads(threads)


def run_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir(exist_ok=True)
    with contextlib.chdir(tmp_path / "here"):
        run_page(text, "page", tmp_path / "here", tmp_path / "bin")


def test_the_blocks_of_a_page_share_a_namespace_and_their_output_is_compared(tmp_path):
    page = "```python\nx = 1\n```\n\n```python\nprint(x + 1)\n```\n\n```text\n{}\n```\n"
    run_text(page.format(2), tmp_path)
    with pytest.raises(AssertionError, match=r"page:6 printed:\n\s*2"):
        run_text(page.format(3), tmp_path)


def test_files_and_commands_share_a_folder_and_a_shell(tmp_path):
    page = "```csv file=data/a.csv\n1,2\n```\n```console\n$ cd data\n$ cat \\\n    a.csv\n{}\n```\n"
    with pytest.raises(AssertionError, match=r"page:6 printed:\n\s*1,2"):
        run_text(page.format("3"), tmp_path)
    (tmp_path / "bin").rename(tmp_path / "used")
    run_text(page.format("1,2"), tmp_path)


def test_a_command_that_fails_is_an_error_of_the_page(tmp_path):
    with pytest.raises(AssertionError, match="page:2 failed with status 1"):
        run_text("```console\n$ false\n```\n", tmp_path)


def test_what_a_page_started_ends_with_it(tmp_path):
    run_text("```console\n$ sleep 100 &\n$ echo $! > pid\n```\n", tmp_path)
    command_line = Path("/proc", (tmp_path / "here" / "pid").read_text().strip(), "cmdline")
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
        ("a.c\n", "abc\n", False),
    ],
)
def test_dots_stand_for_what_varies(printed, shown, is_right):
    assert agrees(printed, shown) == is_right
