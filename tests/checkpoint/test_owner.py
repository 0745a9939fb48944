"""One process trains in a folder at a time."""

import os
import subprocess
import sys

import pytest

from monolith.checkpoint import ModelDirOwner
from monolith.errors import ModelDirInUseError

HOLD = """
import sys
from monolith.checkpoint import ModelDirOwner
owner = ModelDirOwner(sys.argv[1])
print("held", flush=True)
input()
"""


def test_a_second_owner_is_told_who_the_first_is(tmp_path):
    with ModelDirOwner(tmp_path / "model"), pytest.raises(ModelDirInUseError, match=f'"pid": {os.getpid()}'):
        ModelDirOwner(tmp_path / "model")
    ModelDirOwner(tmp_path / "model").close()


def test_a_killed_owner_leaves_the_folder_free(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"held\n"
    with pytest.raises(ModelDirInUseError, match=f'"pid": {other.pid}'):
        ModelDirOwner(tmp_path)
    other.kill()
    other.communicate()
    ModelDirOwner(tmp_path).close()
