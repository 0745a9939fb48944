"""What `monolith launch` shows of its processes: a table on a terminal, their lines elsewhere."""

import io
import os
import re
import signal
import sys

import pytest
from rich.console import Console

from monolith.cli.job.view import JobView
from monolith.launch.supervisor import JobRole, Supervisor, SupervisorConfig
from tests.patience import PATIENCE_SECONDS

CONFIG = SupervisorConfig(
    restart_pause_seconds=0.01,
    stop_seconds=PATIENCE_SECONDS,
    grace_seconds=PATIENCE_SECONDS,
    kill_seconds=PATIENCE_SECONDS,
)

MAX_LOOKS = 50
"""After the last line came; the picture is drawn every fifth time."""


def shown_by_a_job(folder, is_terminal, until):
    """What is shown of a chief, killed once and waiting for a file, until `until` finds what it waits for in it."""
    said, go, looks = io.StringIO(), folder / "go", []
    code = f"import os, time\nprint('step 7', flush=True)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)"
    roles = [JobRole(name="chief", command=[sys.executable, "-I", "-c", code], is_leader=True)]
    pids = []

    with JobView(Console(file=said, force_terminal=is_terminal, width=100)) as view:
        supervisor = Supervisor(roles, folder / "logs", CONFIG, say=view.say)

        def show():
            view.show(supervisor.processes)
            (chief,) = supervisor.processes
            if chief.process is not None and chief.process.pid not in pids:
                if not pids and "step 7" in chief.log.read_text():
                    pids.append(chief.process.pid)
                    os.kill(chief.process.pid, signal.SIGKILL)
                elif pids:
                    pids.append(chief.process.pid)
            if len(pids) == 2 and chief.log.read_text().count("step 7") == 2:
                looks.append(1)
                if len(looks) >= MAX_LOOKS or until(said.getvalue(), pids[1]):
                    go.touch()

        assert supervisor.run(show) == 0
    assert until(said.getvalue(), pids[1]), said.getvalue()
    return said.getvalue(), pids


def test_a_terminal_gets_a_row_per_process(tmp_path):
    def has_row(text, pid):
        return re.search(rf"chief +│ +{pid} +│ runs for \d+ s, restarted 1 times +│ step 7", text)

    text, _ = shown_by_a_job(tmp_path, True, has_row)
    for column in ("process", "pid", "state", "last line"):
        assert column in text
    assert "[chief] step 7" not in text, "a terminal has the table instead of all lines"
    assert "chief was ended by SIGKILL" in text, "what happens stays on the terminal"


def test_elsewhere_every_line_is_printed_once_with_its_process(tmp_path):
    text, pids = shown_by_a_job(tmp_path, False, lambda text, _: text.count("[chief] step 7") == 2)
    assert [line for line in text.splitlines() if "step 7" in line] == ["[chief] step 7"] * 2
    assert all(f"chief runs as process {pid}" in text for pid in pids)
    assert "│" not in text


@pytest.fixture(autouse=True)
def wide_enough(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
