"""A job on a host that has no IPv4 address: in a network of its own, which needs the rights of root."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, counted, expected

ROOT = Path(__file__).resolve().parents[3]
EVENTS = 160

IPV6_ONLY = ["unshare", "--net", "sh", "-c", 'ip link set lo up && ip -4 address flush dev lo && exec "$@"', "sh"]
"""Runs the rest of the command line where ::1 is the only address."""

ADDRESSES = """
from monolith.cluster.host_addresses import get_local_ip, get_local_server_addr, is_ipv4_supported, loopback_ip
print(loopback_ip(), get_local_ip(), get_local_server_addr(7), is_ipv4_supported())
"""


def run(*command):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.run([*IPV6_ONLY, *command], cwd=ROOT, env=environment, timeout=PATIENCE_SECONDS, **pipes)


@pytest.fixture(scope="module", autouse=True)
def network():
    try:
        tried = run("true")
    except FileNotFoundError as error:
        pytest.skip(f"no network of its own: {error}")
    if tried.returncode:
        pytest.skip(f"no network of its own: {tried.stdout.strip()}")


def test_this_host_has_an_address():
    done = run(sys.executable, "-c", ADDRESSES)
    assert done.stdout == "::1 ::1 [::1]:7 False\n"


@pytest.mark.services
def test_a_job(tmp_path):
    command = ["-m", "monolith", "launch", "tests.train.job.counting_job:Counting", "--num-workers", "2"]
    command += ["--params", f'{{"events": {EVENTS}}}', "--model-dir", str(tmp_path), "--num-dsworkers", "1"]
    done = run(sys.executable, *command)
    assert done.returncode == 0, done.stdout
    assert counted(tmp_path) == (expected(EVENTS), EVENTS / BATCH, EVENTS // BATCH)
    assert "127.0.0.1" not in done.stdout
