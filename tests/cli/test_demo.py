"""`monolith demo` as a user runs it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from monolith.checkpoint import latest_state
from monolith.cli.demo.asking import ServerClient
from monolith.cli.demo.command import demo as demo_command
from monolith.cli.demo.folder import DemoFolder, TrainerSize
from monolith.launch.movie_stream import ProbeTail
from monolith.train.job.ask_to_scale import ask_to_scale
from monolith.train.job.status import job_status
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent
FEW_EVENTS = """
from monolith.cli.demo import session
from monolith.cli.run import main
session.NUM_BACKLOG = 5_000
main()
"""


def start_demo(*arguments: str, program: tuple[str, str] = ("-m", "monolith")) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *program, "demo", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def processes_of(folder: Path) -> list[str]:
    """Command lines of all processes that were started with a file of the folder."""
    done = subprocess.run(["ps", "-axww", "-o", "args="], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if str(folder) in line]


def lines_until(demo: subprocess.Popen[str], text: str) -> str:
    """What the demo prints up to a line with the text; however long that takes."""
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def await_fresh_answer(port: int, probe_path: Path) -> None:
    """Wait until an event that is appended from now on changes what the server answers."""
    client, probes = ServerClient("127.0.0.1", port), ProbeTail(probe_path)
    probes.new()  # those before now
    deadline, users = time.monotonic() + PATIENCE_SECONDS, []

    def is_known() -> bool:
        try:
            return bool(users) and client.knows_probe(users[0])
        except OSError:  # a connection that rested for too long was closed; the next one is new
            return False

    while not is_known():
        users += [user for user, _ in probes.new()]
        assert time.monotonic() < deadline, "no new event reached the server"
        time.sleep(0.05)
    client.close()


def test_the_live_model_is_shown_learns_on_and_leaves_nothing(tmp_path):
    """The measurement is one second: nothing here depends on how much this machine gets done in it."""
    folder = tmp_path / "demo"
    demo = start_demo("--seconds", "1", "--port", "0", "--folder", str(folder), "--keep-running")
    try:
        output = lines_until(demo, "/metrics")
        for word in ("Ahead", "Fresh", "Fast", "Rows", "Files"):
            assert f"  {word} " in output
        auc = re.search(r"AUC ([\d.]+) live, ([\d.]+) for a copy", output)
        assert auc is not None
        assert float(auc[1]) > 0.6  # it began to measure when the backlog was learned
        port = re.search(r"curl http://127\.0\.0\.1:(\d+)/metrics", output)
        assert port is not None
        await_fresh_answer(int(port[1]), folder / "job" / "probes.txt")
    finally:
        demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=PATIENCE_SECONDS)
    assert demo.returncode == 0, rest
    assert "Stopped; nothing runs any more." in rest
    assert not processes_of(folder)
    assert not list(folder.rglob("*.tmp"))


def all_take_part(folder: Path, num_ps: int, num_workers: int) -> bool:
    """Whether all servers have rows, all workers train, and the status of the trainer counts all servers."""
    status = job_status(folder / "model", timeout_seconds=PATIENCE_SECONDS)
    trainer = json.loads((folder / "job" / "trainer.status.json").read_text())
    rows = [one["num_rows"].get("uid", 0) for one in status["servers"]]
    return (
        (len(rows), len(status["workers"])) == (num_ps, num_workers)
        and min(rows) > 0
        and all(one.get("events_per_second", 0) > 0 for one in status["workers"])
        and trainer["rows"]["uid"] > max(rows)
        and trainer["memory_bytes"] > 0
    )


def await_parts(folder: Path, num_ps: int, num_workers: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all_take_part(folder, num_ps, num_workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.services
def test_a_job_trains_behind_the_same_view_and_is_scaled(tmp_path):
    folder = tmp_path / "demo"
    size = ("--num-ps", "2", "--num-workers", "2")
    options = ("--rate", "2500", "--seconds", "1", "--port", "0", "--folder", str(folder), "--keep-running")
    demo = start_demo(*size, *options, program=("-c", FEW_EVENTS))
    try:
        output = lines_until(demo, "monolith status")
        assert re.search(r"AUC [\d.]+ live, [\d.]+ for a copy", output)
        assert "2 parameter servers, 2 workers" in output
        port = re.search(r"curl http://127\.0\.0\.1:(\d+)/metrics", output)
        assert port is not None
        await_fresh_answer(int(port[1]), folder / "job" / "probes.txt")
        await_parts(folder, 2, 2)
        said: list[str] = []
        ask_to_scale(folder / "model", num_ps=3, num_workers=1, wait_seconds=PATIENCE_SECONDS, say=said.append)
        assert "it goes on with num_ps=3 and num_workers=1" in said[-1]
        await_parts(folder, 3, 1)
        await_fresh_answer(int(port[1]), folder / "job" / "probes.txt")
    finally:
        demo.send_signal(signal.SIGINT)
    rest, _ = demo.communicate(timeout=PATIENCE_SECONDS)
    assert demo.returncode == 0, rest
    assert not processes_of(folder)
    assert latest_state(folder / "model") is not None
    ends = re.findall(r"(ps \d|chief|worker 1) (ended.*|was ended.*)", (folder / "job" / "job.log").read_text())
    names = ("chief", "ps 0", "ps 0", "ps 1", "ps 1", "ps 2", "worker 1")
    once = [("chief", "ended with status 3")]
    assert sorted(ends) == sorted([*once, *((name, "ended") for name in names)]), "none by a signal"
    with pytest.raises(ValueError, match="monolith demo --resume --num-ps 2 --num-workers 2"):
        DemoFolder(folder, True)
    DemoFolder(folder, True, TrainerSize(2, 2)).__exit__()


def test_workers_without_parameter_servers_are_refused():
    with pytest.raises(ValueError, match="--num-workers 3 .* add --num-ps"):
        demo_command(num_workers=3)


def test_control_c_while_it_starts_leaves_nothing(tmp_path):
    folder = tmp_path / "demo"
    demo = start_demo("--port", "0", "--folder", str(folder))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(processes_of(folder)) < 4 and time.monotonic() < deadline:
        assert demo.poll() is None
        time.sleep(0.05)
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=PATIENCE_SECONDS)
    assert demo.returncode == 130, output
    assert "--resume" in output
    assert not processes_of(folder)
    assert not list(folder.rglob("*.tmp"))


def test_a_port_in_use_is_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        output, _ = start_demo("--port", str(port), "--folder", str(tmp_path / "demo")).communicate(
            timeout=PATIENCE_SECONDS
        )
    assert output == f"monolith: port {port} is in use; choose another with --port (0 picks a free one)\n"
    assert not (tmp_path / "demo").exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    demo = start_demo("--port", "0", "--start-over", "--folder", str(tmp_path))
    output, _ = demo.communicate(timeout=PATIENCE_SECONDS)
    assert demo.returncode == 2
    assert "not of a demo" in output
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
