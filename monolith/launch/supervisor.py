"""Supervisor: runs the processes of a job on this machine, restarts those that die, and stops all in order."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from monolith.launch.log_tail import LogTail

LOST = 1
"""Status of a process of a job that lost others, or its place in the job: it may be started again."""

USER_ERROR = 2
"""Status of a process that was started wrongly: started again, it would end in the same way."""

SCALED = 3
"""Status of a chief that stopped for another number of processes, and saved: all are to be started in the new shape."""

_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRole:
    """One process of a job."""

    name: str
    """For people and for its log file, such as "worker 1"."""

    command: Sequence[str]
    """Program and arguments."""

    is_leader: bool = False
    """It ends the others in order when it is asked to end."""

    is_server: bool = False
    """It has no end of its own: the job is done when all others are."""

    environment: Callable[[int], Mapping[str, str]] | None = None
    """Returns variables that it gets besides this process's own, for its n-th start."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SupervisorConfig:
    """What happens to processes that die or do not end."""

    max_restarts: int = 3
    """How often each process is started again after it died; 0 lets the job fail at once."""

    restart_pause_seconds: float = 1.0
    """Before each restart."""

    stop_seconds: float = 60.0
    """How long an orderly end may take before processes are ended one by one."""

    grace_seconds: float = 10.0
    """How long processes have, when the leader has ended, to end before they get SIGTERM."""

    kill_seconds: float = 10.0
    """A process that has not ended so long after SIGTERM is killed."""

    restarts_all: bool = False
    """If one process dies, all others end and all are started again: none can work without the others."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        for name in ("max_restarts", "restart_pause_seconds", "stop_seconds", "grace_seconds", "kill_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")


@dataclass(slots=True, eq=False)
class RoleProcess:
    """A role as its supervisor sees it."""

    role: JobRole
    log: Path
    tail: LogTail
    process: subprocess.Popen[bytes] | None = None
    status: int | None = None
    """Of its last end."""

    num_restarts: int = 0
    restart_at: float = 0.0
    began: float = field(default_factory=time.monotonic)

    @property
    def is_done(self) -> bool:
        """Whether it has ended well."""
        return self.process is None and self.status == 0

    @property
    def is_due(self) -> bool:
        """Whether it is time to start it again."""
        return self.process is None and bool(self.restart_at) and time.monotonic() >= self.restart_at

    @property
    def words(self) -> str:
        """How it is."""
        if self.process is not None:
            again = f", restarted {self.num_restarts} times" if self.num_restarts else ""
            return f"runs for {time.monotonic() - self.began:.0f} s{again}"
        return "ended" if self.status == 0 else how_it_ended(self.status)


class Supervisor:
    """Runs roles until all but servers have ended well, one has failed for good, or a stop is asked for.

    SIGTERM and Ctrl-C stop the job: the leader is asked to end, and ends the others. A second one kills all.
    """

    def __init__(
        self,
        roles: Sequence[JobRole],
        log_folder: str | Path,
        config: SupervisorConfig | None = None,
        *,
        say: Callable[[str], None] = lambda line: None,
        scaled: Callable[[], Sequence[JobRole]] | None = None,
    ) -> None:
        """Take what to run; `say` gets a line when something happens.

        `scaled` returns what to run after the leader has ended with the status SCALED.
        """
        self._config = config or SupervisorConfig()
        self._say = say
        self._scaled = scaled
        self._stops = 0
        self._folder = Path(log_folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self.processes: list[RoleProcess] = []
        self.processes = self._processes(roles)
        self.failure = ""
        """Why the job failed, in words."""

    def run(self, show: Callable[[], None] = lambda: None) -> int:
        """Run to the end, and return the status: 0, or 1 if the job failed. `show` is called ten times a second."""
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            for process in self.processes:
                self._start(process)
            while not (self._is_over() or self.failure or self._stops):
                self._look()
                show()
                time.sleep(_POLL_SECONDS)
            if self._stops and not self.failure:
                self._say("stopping: workers finish their step, the chief saves; Ctrl-C again ends all at once")
                self._end_in_order(show)
            elif self.failure:
                self._say(self.failure)
            self._end_all(grace_seconds=0.0 if self.failure else self._config.grace_seconds, show=show)
            show()
        finally:
            self._kill_all()
            for number, handler in before.items():
                signal.signal(number, handler)
        return 1 if self.failure else 0

    def _processes(self, roles: Sequence[JobRole]) -> list[RoleProcess]:
        logs = [self._folder / f"{role.name.replace(' ', '-')}.log" for role in roles]
        read = {one.log: one.tail for one in self.processes}  # last lines of earlier processes are shown too
        return [RoleProcess(role, log, read.get(log) or LogTail(log)) for role, log in zip(roles, logs, strict=True)]

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stops += 1

    def _start(self, one: RoleProcess) -> None:
        with one.log.open("ab") as output:
            one.process = subprocess.Popen(
                list(one.role.command),
                env=None if one.role.environment is None else os.environ | one.role.environment(one.num_restarts),
                stdin=subprocess.PIPE,  # held open by us: that it closes is how the child learns of our end
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal reaches this process alone
            )
        one.began = time.monotonic()
        self._say(f"{one.role.name} runs as process {one.process.pid}, log in {one.log}")

    def _look(self) -> None:
        """Note which processes have ended, and start those again that are due."""
        for one in self.processes:
            if one.process is not None and one.process.poll() is not None:
                self._note_end(one)
                if self._scaled is not None and one.role.is_leader and one.status == SCALED:
                    self._start_scaled(self._scaled())
                    return
                if self._config.restarts_all and not one.is_done:
                    self._restart_all(one)
                    return
                if self._leader_is_done:
                    self._check_last_end(one)
                elif not one.is_done or one.role.is_server:
                    self._restart_later(one)
            elif one.is_due and not self._leader_is_done:
                one.restart_at = 0.0
                one.num_restarts += 1
                self._start(one)

    @property
    def _leader_is_done(self) -> bool:
        return any(one.role.is_leader and one.is_done and not one.restart_at for one in self.processes)

    def _check_last_end(self, one: RoleProcess) -> None:
        """Fail if a process ended badly after the leader: nobody is left to work with a new one."""
        if not one.is_done and not one.role.is_server:
            self.failure = f"{one.role.name} {how_it_ended(one.status)}: {one.tail.last_lines()}"

    def _note_end(self, one: RoleProcess) -> None:
        assert one.process is not None
        one.status = one.process.returncode
        if one.process.stdin is not None:
            one.process.stdin.close()
        one.process = None
        self._say(f"{one.role.name} {how_it_ended(one.status)}")

    def _restart_later(self, one: RoleProcess) -> None:
        words = f"{one.role.name} {how_it_ended(one.status)}"
        if one.status == USER_ERROR or one.num_restarts >= self._config.max_restarts:
            self.failure = f"the job failed: {words}: {one.tail.last_lines()}"
            return
        pause = self._config.restart_pause_seconds
        if one.is_done and any(other.role.is_leader for other in self.processes):
            # The leader ends servers just before it ends itself: a new one would be in its way.
            pause += self._config.grace_seconds
        one.restart_at = time.monotonic() + pause
        left = self._config.max_restarts - one.num_restarts
        self._say(f"{one.role.name} is started again in {pause:g} s (restarts left: {left - 1})")

    def _start_scaled(self, roles: Sequence[JobRole]) -> None:
        """Let the others end, whom the leader has told to, and start the job in its new shape."""
        self._wait_for_ends_of_all()
        self._say(f"the job goes on in its new shape: {', '.join(role.name for role in roles)}")
        self.processes = self._processes(roles)
        for one in self.processes:
            self._start(one)

    def _wait_for_ends_of_all(self) -> None:
        """Wait for the ends of all processes, and kill those that take too long."""
        end = time.monotonic() + self._config.kill_seconds
        while (running := [one for one in self.processes if one.process is not None]) and time.monotonic() < end:
            for one in running:
                assert one.process is not None
                if one.process.poll() is not None:
                    self._note_end(one)
            time.sleep(_POLL_SECONDS / 2)
        for one in running:
            assert one.process is not None
            one.process.kill()
            one.process.wait()
            self._note_end(one)

    def _restart_all(self, first: RoleProcess) -> None:
        """Let the others end, which they do when they notice that they lost one, and start all again."""
        for one in self.processes:
            if one.role.is_server and one.process is not None:
                one.process.terminate()  # it would wait for others
        self._wait_for_ends_of_all()
        culprit = next((one for one in self.processes if one.status == USER_ERROR), first)
        self._restart_later(culprit)
        for one in self.processes:
            one.restart_at = culprit.restart_at

    def _is_over(self) -> bool:
        return all(one.is_done for one in self.processes if not one.role.is_server)

    def _end_in_order(self, show: Callable[[], None]) -> None:
        """Ask the leader to end, which ends all others but servers; wait for them."""
        leaders = [one for one in self.processes if one.role.is_leader and one.process is not None]
        for one in leaders or self.processes:
            if one.process is not None:
                one.process.terminate()
        waits_for = [one for one in self.processes if not one.role.is_server]
        self._wait_for_ends(leaders or waits_for, self._config.stop_seconds, show)
        # A leader that ended before its job began has not ended the others.
        self._wait_for_ends(waits_for, self._config.grace_seconds, show)

    def _end_all(self, *, grace_seconds: float, show: Callable[[], None]) -> None:
        """Wait a little for servers, which the leader ends; end by signal what is left."""
        self._wait_for_ends(self.processes, grace_seconds, show)
        running = [one for one in self.processes if one.process is not None]
        for one in running:
            assert one.process is not None
            one.process.terminate()
        self._wait_for_ends(running, self._config.kill_seconds, show)

    def _wait_for_ends(self, waited: Sequence[RoleProcess], seconds: float, show: Callable[[], None]) -> None:
        end = time.monotonic() + seconds
        while any(one.process is not None for one in waited) and time.monotonic() < end and self._stops < 2:
            for one in self.processes:
                if one.process is not None and one.process.poll() is not None:
                    self._note_end(one)
                    if one.status and not self.failure and not one.role.is_server:
                        self.failure = f"{one.role.name} {how_it_ended(one.status)}: {one.tail.last_lines()}"
                        self._say(self.failure)
            show()
            time.sleep(_POLL_SECONDS / 2)

    def _kill_all(self) -> None:
        for one in self.processes:
            if one.process is not None:
                one.process.kill()
                one.process.wait()
                self.failure = self.failure or f"{one.role.name} did not end and was killed"
                if one.process.stdin is not None:
                    one.process.stdin.close()


def how_it_ended(status: Any) -> str:
    """Return an exit status in words.

    >>> how_it_ended(0), how_it_ended(2), how_it_ended(-9)
    ('ended', 'ended with status 2', 'was ended by SIGKILL')
    """
    if status is None:
        return "has not started"
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}" if status else "ended"
