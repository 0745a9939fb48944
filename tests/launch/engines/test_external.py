"""`monolith launch --engine external`: commands for any scheduler, which run a job."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.cli.models.flags import parse_arguments
from monolith.cli.run import status_of
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import counted, expected

ROOT = Path(__file__).resolve().parents[3]
MODEL = "tests.train.job.counting_job:Counting"


def launch(*flags):
    done = CliRunner().invoke(app, ["launch", MODEL, *flags])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_shell_and_a_program_read_the_same_commands():
    flags = ["--model-dir", "some where", "--num-ps", "2", "--num-workers", "2", "--seed", "3", "--engine", "external"]
    params = ["--params", json.dumps({"events": 80})]
    lines = [shlex.split(line, comments=True) for line in launch(*flags, *params).splitlines()]
    commands = [words for words in lines if words]
    roles = json.loads(launch(*flags, *params, "--json"))["roles"]
    assert commands == [role["command"] for role in roles]
    assert [role["name"] for role in roles] == ["ps 0", "ps 1", "chief", "worker 1"]
    for role in roles:
        program, command, *arguments = role["command"]
        model, settings, own = parse_arguments(command, arguments)
        assert (program, model, own["params"]) == ("monolith", MODEL, params[1])
        place = {"server_type": role["server_type"], "index": role["index"]}
        assert settings == {"model_dir": "some where", "num_ps": 2, "num_workers": 2, "seed": 3, **place}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--engine", "slurm"], "--engine is one of local, ray, external, k8s, got 'slurm'"),
        (["--engine", "external", "--image", "shop:1"], "--image is for --engine k8s; --engine external does not read"),
        (["--job-name", "shop"], "--job-name is for --engine ray or k8s; --engine local does not read"),
        (["--num-workers", "0"], "--num-workers of at least 1"),
        (["--engine", "ray", "--ray-runtime-env", "[]"], "--ray-runtime-env must be a JSON object, got '\\[\\]'"),
    ],
)
def test_what_an_engine_would_not_read_is_refused(flags, words):
    if "ray" in flags:
        pytest.importorskip("ray")
    with pytest.raises(ValueError, match=words):
        CliRunner().invoke(app, ["launch", MODEL, "--model-dir", "x", *flags], catch_exceptions=False)


def test_a_process_that_waited_in_vain_may_be_started_again(tmp_path, capsys):
    flags = [f"--model-dir={tmp_path}", "--num-ps=1", "--num-workers=2", "--index=1"]
    flags += ["--session-creation-timeout-secs=1", "--params", '{"events": 80}']
    assert status_of(lambda: app(args=["train", MODEL, *flags], standalone_mode=False)) == 1  # 2 is a wrong setting
    assert "waited 1 seconds" in capsys.readouterr().err


@pytest.mark.services
def test_the_printed_commands_run_a_job(tmp_path):
    server, chief = free_port(), free_port()
    flags = ["--model-dir", str(tmp_path), "--engine", "external", "--json", "--params", '{"events": 160}']
    flags += [
        "--discovery",
        f"static:ps=127.0.0.1:{server};worker=127.0.0.1:{chief}",
        "--num-ps",
        "1",
        "--num-workers",
        "1",
    ]
    roles = json.loads(launch(*flags))["roles"]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *role["command"]], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        for role in roles
    ]
    try:
        assert [one.wait(PATIENCE_SECONDS) for one in started] == [0, 0]
    finally:
        for one in started:
            one.kill()
            one.wait()
    assert counted(tmp_path) == (expected(160), 20.0, 20)
