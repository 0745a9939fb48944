"""Processes of a job under a supervisor: restarts, failures, and an orderly stop."""

import os
import signal
import sys
from pathlib import Path

from monolith.launch.supervisor import SCALED, JobRole, Supervisor, SupervisorConfig
from tests.patience import PATIENCE_SECONDS

PATIENT = {"stop_seconds": PATIENCE_SECONDS, "grace_seconds": PATIENCE_SECONDS, "kill_seconds": PATIENCE_SECONDS}
QUICK = SupervisorConfig(restart_pause_seconds=0.01, **PATIENT)
SERVER = (
    "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0)); print('serving', flush=True); signal.pause()"
)


def role(name: str, code: str, **more) -> JobRole:
    return JobRole(name=name, command=[sys.executable, "-I", "-c", code], **more)


def counted(path: Path, code: str) -> str:
    """Code that first notes that it runs; `n` counts the runs so far."""
    return f"import os\nf = open({str(path)!r}, 'a+'); f.write('x'); f.flush(); n = os.path.getsize(f.name)\n{code}"


def test_a_job_is_done_when_all_but_servers_have_ended(tmp_path):
    said = []
    log = tmp_path / "ps-0.log"
    chief = f"import os, time\nwhile not os.path.getsize({str(log)!r}): time.sleep(0.01)\nprint('trained')"
    roles = [role("ps 0", SERVER, is_server=True), role("chief", chief, is_leader=True)]
    supervisor = Supervisor(roles, tmp_path, SupervisorConfig(**PATIENT | {"grace_seconds": 0.1}), say=said.append)
    assert supervisor.run() == 0
    assert (tmp_path / "chief.log").read_text() == "trained\n"
    assert (tmp_path / "ps-0.log").read_text() == "serving\n"
    assert "chief ended" in said


def test_a_dead_process_is_started_again(tmp_path):
    dies_twice = counted(tmp_path / "runs", "import signal\nif n < 3: os.kill(os.getpid(), signal.SIGKILL)")
    said = []
    assert Supervisor([role("worker 1", dies_twice)], tmp_path / "logs", QUICK, say=said.append).run() == 0
    assert (tmp_path / "runs").read_text() == "xxx"
    assert "worker 1 was ended by SIGKILL" in said


def test_too_many_deaths_fail_the_job_with_the_last_lines(tmp_path):
    dies = counted(tmp_path / "runs", "print('no rows', flush=True); exit(1)")
    config = SupervisorConfig(max_restarts=2, restart_pause_seconds=0.0, **PATIENT)
    supervisor = Supervisor([role("ps 0", SERVER, is_server=True), role("chief", dies)], tmp_path / "logs", config)
    assert supervisor.run() == 1
    assert (tmp_path / "runs").read_text() == "xxx"
    assert "chief ended with status 1: no rows" in supervisor.failure
    assert all(one.process is None for one in supervisor.processes)


def test_nobody_is_started_again_once_the_leader_has_ended(tmp_path):
    over, said = tmp_path / "over", []
    waits = f"import time\nwhile not os.path.exists({str(over)!r}): time.sleep(0.01)\nexit(1)"
    roles = [role("chief", "", is_leader=True), role("worker 1", counted(tmp_path / "runs", waits))]
    supervisor = Supervisor(roles, tmp_path / "logs", QUICK, say=said.append)
    assert supervisor.run(lambda: over.touch() if "chief ended" in said else None) == 1
    assert (tmp_path / "runs").read_text() == "x"
    assert "worker 1 ended with status 1" in supervisor.failure


def test_a_wrong_setting_is_not_tried_again(tmp_path):
    supervisor = Supervisor([role("chief", counted(tmp_path / "runs", "exit(2)"))], tmp_path / "logs", QUICK)
    assert supervisor.run() == 1
    assert (tmp_path / "runs").read_text() == "x"


def test_a_server_that_ends_during_the_job_is_started_again(tmp_path):
    server = counted(tmp_path / "runs", f"if n < 2: exit(0)\n{SERVER}")
    waits = f"import os, time\nwhile os.path.getsize({str(tmp_path / 'runs')!r}) < 2: time.sleep(0.01)"
    (tmp_path / "runs").touch()
    config = SupervisorConfig(restart_pause_seconds=0.01, **PATIENT | {"grace_seconds": 0.1})
    assert Supervisor([role("ps 0", server, is_server=True), role("chief", waits)], tmp_path / "l", config).run() == 0


def test_a_server_that_the_leader_ended_stays_ended(tmp_path):
    """The leader needs a while to end itself, longer than the pause before a restart."""
    over, late = tmp_path / "over", tmp_path / "late"
    server = f"import time\nwhile not os.path.exists({str(over)!r}): time.sleep(0.01)"
    chief = (
        "import os, pathlib, time\n"
        f"while not os.path.exists({str(tmp_path / 'runs')!r}): time.sleep(0.01)\n"
        f"pathlib.Path({str(over)!r}).touch()\n"
        f"while not os.path.exists({str(late)!r}): time.sleep(0.01)"
    )
    roles = [
        role("ps 0", counted(tmp_path / "runs", server), is_server=True),
        role("chief", chief, is_leader=True),
    ]
    said, looks = [], []

    def look() -> None:
        looks.append("ps 0 ended" in said)
        if sum(looks) > 5:  # it would have been started again by now
            late.touch()

    assert Supervisor(roles, tmp_path / "logs", QUICK, say=said.append).run(look) == 0
    assert (tmp_path / "runs").read_text() == "x"


def test_a_job_goes_on_in_its_new_shape(tmp_path):
    first = [
        role("chief", f"exit({SCALED})", is_leader=True),
        role("ps 0", SERVER, is_server=True),
        role("worker 1", "print('before')"),
    ]
    second = [role("chief", "print('after')", is_leader=True), role("worker 2", "print('new')")]
    config = SupervisorConfig(max_restarts=0, kill_seconds=0.3)
    supervisor = Supervisor(first, tmp_path, config, scaled=lambda: second)
    assert supervisor.run() == 0
    assert [one.role.name for one in supervisor.processes] == ["chief", "worker 2"]
    assert (tmp_path / "chief.log").read_text() == "after\n"
    assert (tmp_path / "worker-2.log").read_text() == "new\n"


def test_a_leader_that_stops_before_its_job_began_does_not_keep_the_others(tmp_path):
    chief = (
        "import signal\nsignal.signal(signal.SIGTERM, lambda *_: exit(0)); print('ready', flush=True); signal.pause()"
    )
    roles = [role("chief", chief, is_leader=True), role("worker 1", SERVER)]
    supervisor = Supervisor(roles, tmp_path, SupervisorConfig(**PATIENT | {"grace_seconds": 0.1}))

    def stop_when_ready() -> None:
        logs = (tmp_path / "chief.log").read_text(), (tmp_path / "worker-1.log").read_text()
        if all(logs) and not supervisor._stops:
            os.kill(os.getpid(), signal.SIGTERM)

    assert supervisor.run(stop_when_ready) == 0


def test_a_stop_asks_the_leader_which_ends_the_others(tmp_path):
    over = tmp_path / "over"
    worker = f"import os, time\nwhile not os.path.exists({str(over)!r}): time.sleep(0.01)"
    chief = (
        "import signal, pathlib\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path({str(over)!r}).touch(), exit(0)))\n"
        "print('ready', flush=True); signal.pause()"
    )
    roles = [role("chief", chief, is_leader=True), role("worker 1", worker)]
    supervisor = Supervisor(roles, tmp_path / "logs", QUICK)

    def stop_when_ready() -> None:
        if "ready" in (tmp_path / "logs/chief.log").read_text() and not supervisor._stops:
            os.kill(os.getpid(), signal.SIGTERM)

    assert supervisor.run(stop_when_ready) == 0
    assert over.exists()


def test_what_does_not_end_is_killed_and_the_status_tells(tmp_path):
    stubborn = (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"
    )
    config = SupervisorConfig(stop_seconds=0.1, grace_seconds=0.1, kill_seconds=0.1)
    supervisor = Supervisor([role("chief", stubborn, is_leader=True)], tmp_path, config)

    def stop_when_ready() -> None:
        if "ready" in (tmp_path / "chief.log").read_text() and not supervisor._stops:
            os.kill(os.getpid(), signal.SIGTERM)

    assert supervisor.run(stop_when_ready) == 1
    assert "killed" in supervisor.failure
