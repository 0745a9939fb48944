"""`monolith demo` as a user runs it."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def start_demo(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "monolith", "demo", *arguments],
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


def test_the_live_model_is_shown_and_nothing_is_left(tmp_path):
    folder = tmp_path / "demo"
    demo = start_demo("--seconds", "6", "--port", "0", "--folder", str(folder))
    output, _ = demo.communicate(timeout=110)
    assert demo.returncode == 0, output
    for word in ("Ahead", "Fresh", "Fast", "Rows", "Files"):
        assert f"  {word} " in output
    auc = re.search(r"AUC ([\d.]+) live, ([\d.]+) for a copy", output)
    assert auc is not None
    assert float(auc[1]) > 0.6
    probes = re.search(r"after ([\d.]+) s \(median\).*?(\d+) probes", output)
    assert probes is not None
    assert float(probes[1]) < 5.0
    assert int(probes[2]) >= 5
    assert not processes_of(folder)
    assert not list(folder.rglob("*.tmp"))


def test_control_c_while_it_starts_leaves_nothing(tmp_path):
    folder = tmp_path / "demo"
    demo = start_demo("--port", "0", "--folder", str(folder))
    deadline = time.monotonic() + 60
    while len(processes_of(folder)) < 4 and time.monotonic() < deadline:
        assert demo.poll() is None
        time.sleep(0.05)
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, output
    assert "--resume" in output
    assert not processes_of(folder)
    assert not list(folder.rglob("*.tmp"))


def test_a_port_in_use_is_one_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        output, _ = start_demo("--port", str(port), "--folder", str(tmp_path / "demo")).communicate(timeout=60)
    assert output == f"monolith: port {port} is in use; choose another with --port (0 picks a free one)\n"
    assert not (tmp_path / "demo").exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    demo = start_demo("--port", "0", "--start-over", "--folder", str(tmp_path))
    output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 2
    assert "not of a demo" in output
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
