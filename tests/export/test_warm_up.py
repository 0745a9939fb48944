"""Requests for warm-up in a version: made up or the user's, written by every way to export, answered by a server."""

import json

import httpx
import pytest
from typer.testing import CliRunner

import monolith as mono
from monolith.cli.app import app
from monolith.export import load_export, newest_export
from monolith.export.versions import WARM_UP_FILE
from monolith.export.warm_up.request_file import read_requests
from monolith.serving.models.warm_up import warm_up
from tests.export.movie import export
from tests.export.taste import Taste, events, texts_of
from tests.export.two_heads import TwoHeads, exported
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running

REQUEST = {"inputs": {"uid": [3, 4], "mov": [5, 6]}}
MOVIES = {"inputs": {"uid": [3, 4], "mov": [5, 6], "hour": [0.5]}}


def lines_of(version):
    return [json.loads(line) for line in (version / WARM_UP_FILE).open()]


def asked_by_warm_up(monkeypatch, version):
    """The number of examples of each request that a server predicts first."""
    model, sizes = load_export(version), []
    plain = model.predict_together
    monkeypatch.setattr(model, "predict_together", lambda asked: sizes.append(asked[0].num_examples) or plain(asked))
    warm_up(model, version)
    return sizes


@pytest.mark.parametrize("columns", [events(64), {**events(64), **texts_of(events(64))}], ids=["ids", "texts"])
def test_requests_are_made_up_of_lists_and_texts_and_can_be_answered(tmp_path, monkeypatch, columns):
    estimator = mono.Estimator(Taste, mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0), params=columns)
    estimator.train(steps=1)
    version = estimator.export_saved_model()
    by_example, by_column = lines_of(version)
    assert by_example["instances"][0]["genres"] == []
    assert by_column["inputs"]["genres"] == [[], [1], [2, 2], [3, 3, 3]]
    assert asked_by_warm_up(monkeypatch, version)[:2] == [1, 4]


def test_a_server_answers_what_an_export_has_made_up(tmp_path):
    """Each line is the body of a request, for curl too; each signature has one."""
    _, base = exported(tmp_path)
    requests = (newest_export(base) / WARM_UP_FILE).read_bytes().splitlines()
    assert [json.loads(line).get("signature_name") for line in requests] == [None, None, "vectors", "logit"]
    with running(base, tmp_path / "ready.json") as (_, ready):
        for line in requests:
            answer = httpx.post(f"{ready['url']}/v1/models/heads:predict", content=line, timeout=PATIENCE_SECONDS)
            assert answer.status_code == 200, answer.text


def test_the_same_model_gets_the_same_file(tmp_path):
    first, second = (export(tmp_path, version) for version in (1, 2))
    assert (first / WARM_UP_FILE).read_bytes() == (second / WARM_UP_FILE).read_bytes()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    exported(folder)
    return folder


def test_a_file_of_the_user_is_taken_from_code_and_command_line(trained, tmp_path, monkeypatch):
    path = tmp_path / "requests.jsonl"
    path.write_text(json.dumps(REQUEST) + "\n\n" + json.dumps({**REQUEST, "signature_name": "vectors"}))
    config = mono.RunConfig(model_dir=trained / "model", warmup_file=str(path))
    version = mono.Estimator(TwoHeads, config).export_saved_model(export_base=tmp_path / "versions")
    assert lines_of(version) == [REQUEST, {**REQUEST, "signature_name": "vectors"}]
    assert asked_by_warm_up(monkeypatch, version)[:2] == [2, 2]
    flags = ["--model-dir", str(trained / "model"), "--export-base", str(tmp_path / "more"), "--warmup-file", str(path)]
    done = CliRunner().invoke(app, ["export", "tests.export.two_heads:TwoHeads", *flags])
    assert done.exit_code == 0, done.output
    assert lines_of(newest_export(tmp_path / "more")) == lines_of(version)


def test_a_live_run_writes_the_users_requests_into_each_version(tmp_path):
    path = tmp_path / "requests.jsonl"
    path.write_text(json.dumps(REQUEST))
    settings = {"export_base": str(tmp_path / "versions"), "export_mode": "distributed", "export_num_shards": 2}
    config = mono.RunConfig(model_dir=tmp_path / "model", log_step_count_steps=0, warmup_file=str(path), **settings)
    mono.Estimator(TwoHeads, config).train(steps=1)
    assert lines_of(newest_export(tmp_path / "versions")) == [REQUEST]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no JSON"),
        ("[]", "line 2 must be an object with either instances or inputs"),
        ("{}", "line 2 must be an object with either instances or inputs"),
        ('{"inputs": {}, "instances": []}', "line 2 must be an object with either instances or inputs"),
        ('{"inputs": {}, "signature": "x"}', "line 2 must be an object with either instances or inputs"),
        ('{"instances": [3]}', "line 2: examples must be objects of inputs"),
    ],
)
def test_a_line_that_is_no_request_is_named(tmp_path, line, message):
    path = tmp_path / "requests.jsonl"
    path.write_text(json.dumps(REQUEST) + "\n" + line)
    with pytest.raises(ValueError, match=message):
        read_requests(path)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"inputs": {"uid": [1]}}, "request 2 for warm-up: it has the inputs .'uid'., the model takes uid, mov, hour"),
        ({"instances": [{"b64": "AA=="}]}, "records cannot stand for them"),
        ({**MOVIES, "signature_name": "x"}, "no signature 'x'; the signatures are serving_default"),
    ],
)
def test_a_request_that_the_model_cannot_answer_is_named_before_anything_is_written(tmp_path, request_, message):
    with pytest.raises(ValueError, match=message):
        export(tmp_path / "versions", warm_up=[MOVIES, request_])
    assert not (tmp_path / "versions").exists()


def test_only_the_default_file_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert read_requests("./warmup_file") is None
    (tmp_path / "warmup_file").write_text(json.dumps(REQUEST))
    assert read_requests("./warmup_file") == [REQUEST]
    with pytest.raises(FileNotFoundError, match="there is no file requests.jsonl; write a request per line"):
        read_requests("requests.jsonl")
