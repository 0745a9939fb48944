"""Agents as processes of their own, and what a test asks about them."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.cluster.serving.records import ModelState
from tests.patience import PATIENCE_SECONDS


def agent_command(*arguments):
    """Return what `monolith agent ...` prints."""
    done = CliRunner().invoke(app, ["agent", *arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


@contextmanager
def running_agent(*arguments):
    """Yield a process of `monolith agent run` that looks often; it is killed after the block."""
    run = [sys.executable, "-m", "monolith", "agent", "run", "--interval", "0.2", *arguments]
    agent = subprocess.Popen(run)
    try:
        yield agent
    finally:
        agent.kill()
        agent.wait()


def until(condition):
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


def available(registry, model, server_type, task=0):
    found = [one for one in registry.replicas(model) if (one.server_type, one.task) == (server_type, task)]
    return [one for one in found if one.stat == ModelState.AVAILABLE]


def server_pids(command, base):
    """Return the processes that serve this folder by a command, as the system lists them."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                arguments = file.read().decode(errors="replace").split("\0")
            with open(f"/proc/{name}/stat") as file:
                is_dead = file.read().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if command in arguments and any(one.endswith(str(base)) for one in arguments) and not is_dead:
            found.append(int(name))
    return found
