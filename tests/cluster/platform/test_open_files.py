"""The limit of open files: raised as far as the system allows, and a warning with the way out where that is too low."""

import logging
import subprocess
import sys
from pathlib import Path

from monolith.cluster.platform.open_files import make_room_for_files, max_open_files
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[3]

RAISED = """
import resource
from monolith.cluster.platform.open_files import make_room_for_files, max_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
assert max_open_files() == 100
assert make_room_for_files(100, reason="-") and max_open_files() == 100, "what fits is left alone"
assert make_room_for_files(200, reason="-") and max_open_files() == 300
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, 300)
assert not make_room_for_files(301, reason="the job has 9 workers")
"""
JOB = """
import resource
from monolith.train.job_config import JobConfig
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 5000))
JobConfig(server_type=SERVER_TYPE, index=1, num_ps=1000, num_workers=1000).make_room_for_files()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (5000, 5000)
JobConfig(num_ps=1000, num_workers=1000).make_room_for_files()
"""


def said_by(code):
    """Run code in a process of its own, whose limit cannot go up again; return what it logged."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_limit_goes_up_to_the_hard_one_if_it_must():
    said = said_by(RAISED)
    assert said.count("\n") == 1
    assert "may need 301 open files, since the job has 9 workers, and the system allows it 300" in said
    assert "ulimit -Hn 301" in said and "LimitNOFILE=301" in said and "nofile=301" in said


def test_processes_of_a_large_job_ask_for_as_many_as_they_may_need():
    for server_type in ("ps", "worker"):
        said = said_by(JOB.replace("SERVER_TYPE", repr(server_type)))
        assert said.count("\n") == 1, "a server and a worker have enough; the chief, which has both kinds, warns"
        assert "may need 8256 open files, since the job has 1000 parameter servers and 1000 workers" in said


def test_a_system_that_refuses_its_own_limit_gives_what_is_needed(monkeypatch, caplog):
    limits = [(256, -1)]
    monkeypatch.setattr("resource.RLIM_INFINITY", -1)
    monkeypatch.setattr("resource.getrlimit", lambda _: limits[-1])

    def setrlimit(_, wanted):
        if wanted[0] == -1:
            raise ValueError("current limit exceeds maximum limit")
        limits.append(wanted)

    monkeypatch.setattr("resource.setrlimit", setrlimit)
    with caplog.at_level(logging.WARNING):
        assert make_room_for_files(1000, reason="-")
    assert max_open_files() == 1000 and not caplog.records
    limits.append((-1, -1))
    assert max_open_files() > 10**9, "unlimited"
