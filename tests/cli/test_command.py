"""The `monolith` command as a user runs it: in a process of its own."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

import monolith
from monolith._core import native
from monolith.cli import run
from monolith.cli.info import OPTIONAL_PARTS
from monolith.errors import CorruptFileError
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent.parent


def monolith_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "monolith", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


def test_version():
    done = monolith_command("--version")
    assert (done.returncode, done.stdout) == (0, f"monolith {monolith.__version__}\n")


@pytest.fixture(scope="module")
def info():
    """What `monolith info --json` says."""
    return json.loads(monolith_command("info", "--json").stdout)


def test_info_shows_what_this_build_is(info):
    build = info["build"]
    assert build["monolith"] == monolith.__version__
    assert build["torch"] == torch.__version__
    assert native.best_simd_level() in build["simd"]


def test_info_shows_each_optional_part_or_how_to_get_it(info):
    parts = info["optional"]
    for extra, distribution in OPTIONAL_PARTS.items():
        try:
            expected = f"{distribution} {version(distribution)}"
        except ImportError:
            expected = f"pip install 'monolith-recsys[{extra}]'"
        assert parts[extra] == expected


def test_info_for_people_says_the_same(info):
    done = monolith_command("info", COLUMNS="200")
    for value in info["optional"].values():
        assert value in done.stdout


def test_an_unknown_command_is_a_usage_error():
    done = monolith_command("no-such-command")
    assert done.returncode == 2
    assert "no-such-command" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "error",
    [CorruptFileError("shard 3 is\ntruncated"), ValueError("shard 3 is truncated"), OSError("shard 3 is truncated")],
)
def test_an_error_of_the_users_making_is_one_line(monkeypatch, capsys, error):
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr(run, "import_module", fail)
    with pytest.raises(SystemExit) as stopped:
        run.main()
    assert stopped.value.code == 2
    assert re.fullmatch(r"monolith: shard 3 is truncated \(at .*test_command.py, line \d+\)\n", capsys.readouterr().err)


def test_traceback_shows_where_an_error_came_from(monkeypatch):
    def fail(name: str) -> None:
        raise ValueError("shard 3")

    monkeypatch.setattr(run, "import_module", fail)
    monkeypatch.setattr(sys, "argv", ["monolith", "--traceback", "info"])
    with pytest.raises(ValueError, match="shard 3"):
        run.main()


def test_any_other_error_says_how_to_see_where_it_came_from(monkeypatch, capsys):
    def fail(name: str) -> None:
        raise KeyError("bug")

    monkeypatch.setattr(run, "import_module", fail)
    with pytest.raises(SystemExit) as stopped:
        run.main()
    assert stopped.value.code == 1
    line = capsys.readouterr().err
    assert line.startswith("monolith: KeyError: bug (at tests/cli/test_command.py, line ")
    assert line.endswith("(--traceback shows where it came from)\n")
