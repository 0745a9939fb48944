"""What OpenMP itself says of the processes of the `monolith` command."""

import os
import subprocess
import sys

import pytest

from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="GNU OpenMP tells its settings; others have no such one"
)


@pytest.mark.parametrize(
    ("users", "wanted"),
    [
        ({}, "GOMP_SPINCOUNT = '5000'"),
        ({"GOMP_SPINCOUNT": "77"}, "GOMP_SPINCOUNT = '77'"),
        ({"OMP_WAIT_POLICY": "passive"}, "GOMP_SPINCOUNT = '0'"),
    ],
)
def test_threads_of_the_command_wait_awake_for_a_moment_unless_the_user_says_otherwise(users, wanted):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(
        [sys.executable, "-m", "monolith", "info"],
        env={**environment, **users, "OMP_DISPLAY_ENV": "VERBOSE"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert wanted in done.stderr
