"""`monolith data-service`: what runs for long in a process of its own, the rest in this one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from monolith.cli.run import main
from monolith.data_service import Dispatcher, DispatcherConfig, ServiceSource
from tests.data_service.numbered_input import INPUT, NUM_RECORDS, seqs
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "monolith", "data-service", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "160"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )


@pytest.fixture
def here(monkeypatch, capsys):
    """Run a command in this process; return its exit code and what it wrote."""

    def run_here(*arguments: str):
        monkeypatch.setattr(sys, "argv", ["monolith", "data-service", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return run_here


@pytest.fixture
def start(tmp_path):
    """Start a command that writes a file when it answers; return the process and its address."""
    started = []

    def start_one(*arguments: str):
        ready = tmp_path / f"{len(started)}.json"
        process = subprocess.Popen(
            command(*arguments, "--ready-file", str(ready)),
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not ready.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < give_up, "it did not start"
            time.sleep(0.02)
        return process, json.loads(ready.read_text())["address"]

    yield start_one
    for process in started:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


def test_a_service_from_the_command_line(tmp_path, start, here):
    splits = ("--input", INPUT, "--num-splits", "4", "--state", str(tmp_path / "state"))
    dispatcher, address = start("dispatcher", "--address", "127.0.0.1:0", *splits)
    worker, worker_address = start("worker", "--dispatcher", address, "--prefetch", "2")
    source = ServiceSource(address, trainer="trainer-0", splits_in_flight=1)
    assert sorted(number for batch in source for number in seqs(batch)) == list(range(NUM_RECORDS))
    status = json.loads(here("status", "--dispatcher", address, "--json")[1])
    assert [split["done"] for split in status["rounds"]["0"]] == [True] * 4
    code, shown, _ = here("status", "--dispatcher", address)
    assert code == 0
    for words in (INPUT, "4/4 done", "trainer-0", worker_address, "has its lease"):
        assert words in shown
    for process in (worker, dispatcher):
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, err) == (0, "")
        assert "Ctrl-C ends it" in out


def test_an_input_that_is_not_there_ends_the_worker_with_one_line(tmp_path):
    config = DispatcherConfig(
        input="no_such_module:make", num_splits=4, state_path=str(tmp_path), address="127.0.0.1:0"
    )
    with Dispatcher(config) as dispatcher:
        done = run("worker", "--dispatcher", dispatcher.address)
    assert done.returncode == 2
    assert "no module 'no_such_module'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_dispatcher_worker_and_status_name_its_address(here):
    address = f"127.0.0.1:{free_port()}"
    done = run("worker", "--patience-seconds", "0.2", "--dispatcher", address)
    code, _, words = here("status", "--dispatcher", address)
    assert code == done.returncode == 2
    for error in (words, done.stderr):
        assert address in error
        assert len(error.splitlines()) == 1


def test_help_names_each_command_and_what_it_needs(here):
    _, text, _ = here("--help")
    for words in ("dispatcher", "worker", "status", "exactly one trainer"):
        assert words in " ".join(text.split())
    _, text, _ = here("dispatcher", "--help")
    assert "MODULE:CALLABLE" in " ".join(text.split())
