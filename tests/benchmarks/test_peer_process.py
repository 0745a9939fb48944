"""Peers answer in time, or the error says who did not and why."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import peer_process
from benchmarks.ids import checksum, random_rows
from benchmarks.peer_process import PeerError, PeerProcess, PeerProgram, start_peer
from benchmarks.peers.training_ids import TrainingShape

PEER = """
import os, sys, time
from benchmarks.ids import checksum, random_rows
from benchmarks.peers.protocol import serve

def setup(settings):
    print("noise that a library makes")
    count = settings["count"]
    def raises(seed):
        raise KeyError("no such thing")
    def crashes(seed):
        print("about to fall over", flush=True)
        os._exit(3)
    return {
        "works": lambda seed: (0.5 + seed, checksum(random_rows(seed, count, 100, "zipf"))),
        "raises": raises,
        "crashes": crashes,
        "hangs": lambda seed: time.sleep(600),
    }

serve(setup)
"""


@pytest.fixture
def peer(tmp_path: Path) -> PeerProcess:
    program = tmp_path / "peer.py"
    program.write_text(f"import sys\nsys.path.insert(0, {str(peer_process.ROOT)!r})\n{PEER}")
    return PeerProcess("tiny", [sys.executable, str(program)])


def test_rounds_are_answered(peer: PeerProcess) -> None:
    with peer:
        assert peer.setup({"count": 10}) == ["crashes", "hangs", "raises", "works"]
        assert peer.round(2, "works") == (2.5, checksum(random_rows(2, 10, 100, "zipf")))
        assert peer.round(3, "works")[0] == 3.5


def test_contender_checks_the_ids(peer: PeerProcess) -> None:
    with peer:
        peer.setup({"count": 10})
        assert peer.contender("works", lambda seed: checksum(random_rows(seed, 10, 100, "zipf")))(1) == 1.5
        with pytest.raises(PeerError, match="tiny made other ids than we did for seed 1 of works"):
            peer.contender("works", lambda seed: checksum(random_rows(seed, 11, 100, "zipf")))(1)


def test_an_error_is_passed_on(peer: PeerProcess) -> None:
    with peer:
        peer.setup({"count": 1})
        with pytest.raises(PeerError, match="peer tiny answered KeyError: 'no such thing'"):
            peer.round(0, "raises")


def test_a_crash_shows_the_status_and_the_last_words(peer: PeerProcess) -> None:
    with peer:
        peer.setup({"count": 1})
        with pytest.raises(PeerError, match=r"(?s)peer tiny ended with status 3.*about to fall over"):
            peer.round(0, "crashes")
        with pytest.raises(PeerError, match="tiny has ended"):
            peer.round(0, "works")


def test_a_peer_that_hangs_is_ended(peer: PeerProcess) -> None:
    with peer:
        peer.setup({"count": 1})
        with pytest.raises(PeerError, match=r"no answer within 0\.2 s"):
            peer.round(0, "hangs", timeout_seconds=0.2)
        assert peer._process.returncode is not None


def test_nonsense_is_an_error() -> None:
    program = "import os, sys; os.write(int(sys.argv[-1]), b'hello\\n'); sys.stdin.read()"
    with (
        PeerProcess("babbler", [sys.executable, "-c", program]) as babbler,
        pytest.raises(PeerError, match="babbler answered b'hello', which is not JSON"),
    ):
        babbler.setup({})


def test_a_missing_environment_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peer_process, "ROOT", tmp_path)
    lines: list[str] = []
    assert start_peer(PeerProgram(name="absent", module="nothing", venv=".venv-absent"), {}, lines.append) is None
    assert lines == ["peer absent is not installed (.venv-absent is missing); `make bench-peers` installs it"]


def test_a_broken_environment_is_a_notice() -> None:
    lines: list[str] = []
    assert start_peer(PeerProgram(name="broken", module="benchmarks.peers.absent"), {}, lines.append) is None
    assert "No module named benchmarks.peers.absent" in lines[0]


def test_the_torch_peer_trains() -> None:
    shape = TrainingShape(num_features=2, rows_per_feature=20, dim=4, batch_size=8, num_steps=2)
    lines: list[str] = []
    torch_peer = start_peer(peer_process.TORCH_SPARSE, {**shape.as_settings(), "num_threads": 1}, lines.append)
    assert torch_peer is not None, lines
    with torch_peer:
        seconds, ids = torch_peer.round(4, "train_zipf")
    assert seconds > 0
    assert ids == checksum(shape.rows(4, "zipf"))
