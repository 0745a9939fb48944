"""Runs a page: its code in this process, its commands in a shell; `page.py` has the rules."""

import contextlib
import io
import re
from pathlib import Path

from tests.docs.page import PORTS, Code, Command, File, agrees, steps_of
from tests.docs.shell import Shell
from tests.free_port import free_port


def with_free_ports(page: str) -> str:
    ports = {port: free_port() for port in PORTS}
    return re.sub(rf"(?<=[: =])(?:{'|'.join(PORTS)})\b", lambda found: str(ports[found[0]]), page)


def run_page(text: str, name: str, folder: Path, programs: Path) -> list[tuple[str, str]]:
    """Run the steps of a page in `folder`, which is the current one, and compare what they print with the page.

    Commands are those of the folder `programs`. Return them with what they printed.
    """
    ran: list[tuple[str, str]] = []
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
                ran.append((step.text, printed))
    return ran


def printed_by(code: Code, name: str, scope: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        # The blank lines make a traceback show the page's own line numbers.
        exec(compile("\n" * (code.line - 1) + code.text, name, "exec"), scope)
    return printed.getvalue()
