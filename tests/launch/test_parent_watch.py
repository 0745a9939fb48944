"""A process that ends with its parent: in order, or at once."""

import subprocess
import sys

import pytest

from tests.patience import PATIENCE_SECONDS

CODE = """
import signal, sys, threading
from monolith.launch.parent_watch import end_with_parent
signal.signal(signal.SIGTERM, lambda *_: (print("in order"), sys.exit(0)))
end_with_parent(at_once={at_once})
print("runs", flush=True)
while True:
    signal.pause()
"""


@pytest.mark.parametrize(("at_once", "output", "status"), [(False, "in order\n", 0), (True, "", 1)])
def test_a_process_whose_parent_is_gone_ends(at_once, output, status):
    command = [sys.executable, "-c", CODE.format(at_once=at_once)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "runs\n"
    assert process.communicate(timeout=PATIENCE_SECONDS)[0] == output
    assert process.returncode == status
