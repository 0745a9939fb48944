"""`monolith forget` while a model is trained and served: the run, its files and its servers, at once."""

import json
import threading
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import monolith as mono
from monolith.checkpoint import ModelDirOwner, latest_state, list_snapshots
from monolith.checkpoint.format.delta_chain import chain_to, check_chain
from monolith.checkpoint.format.layout import list_deltas
from monolith.cli.app import app
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.data import Batch
from monolith.delta.forgetting import ask_to_forget
from monolith.parallel.coordination import Coordinator, Opening
from monolith.serving.models.follower import Follower
from monolith.serving.models.served_model import ModelConfig, ServedModel
from monolith.train.config import RunnerConfig
from monolith.train.job.local_state import run_with_local_servers
from monolith.train.job.place import WORKER
from monolith.train.job.scale.shape import CLUSTER_FOLDER
from monolith.train.run import run
from monolith.wire import SharedSecret
from tests.patience import PATIENCE_SECONDS
from tests.train.forget.users import FOLDERS, OTHER, SCHEMA, USER, Users, events, files_with, train

COLUMNS = {"mov": ["movie 1"], "page": np.array([1])}


class Stream:
    """Events with USER; then nothing, until `released`; then as many without USER."""

    schema = SCHEMA

    def __init__(self, num_batches=12):
        self.batches = list(events())[:num_batches]
        self.waits, self.released = threading.Event(), threading.Event()
        self.position = 0

    def __iter__(self):
        while self.position < 2 * len(self.batches):
            if self.position == len(self.batches):
                self.waits.set()
                assert self.released.wait(PATIENCE_SECONDS)
            batch = self.batches[self.position % len(self.batches)]
            columns = dict(batch.columns)
            if self.position >= len(self.batches):
                columns["uid"] = columns["uid"].where(columns["uid"] != USER, columns["uid"] * 0 + 7)
            first, self.position = self.position * len(batch), self.position + 1
            yield Batch(columns, first, first + len(batch))

    def after(self):
        """Return it without the wait."""
        self.released.set()
        return self

    def state(self):
        return {"0": self.position}

    def restore(self, state):
        self.position = state["0"]


@contextmanager
def training(folder, stream, **settings):
    """A run in a thread of its own, which waits for events when this returns; it ends with the block."""
    config = RunnerConfig(model_dir=str(folder), **FOLDERS, **settings)
    errors = []

    def go():
        try:
            run(Users(), config, source=stream)
        except BaseException as error:  # noqa: BLE001  raised below
            errors.append(error)
            stream.waits.set()

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    try:
        assert stream.waits.wait(PATIENCE_SECONDS) and not errors, errors
        yield
    finally:
        stream.released.set()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive() and not errors, errors


def forget(folder, *flags, code=0):
    done = CliRunner().invoke(app, ["forget", str(folder), "--table", "uid", "--id", str(USER), *flags, "--json"])
    assert done.exit_code == code, (done.output, done.exception)
    return json.loads(done.output)


@pytest.fixture
def served(tmp_path):
    """Versions of a model and two of its servers' models: one takes deltas, the other looks for new files."""
    base = tmp_path / "exports"
    train(tmp_path / "before", steps=6)
    config = mono.RunConfig(model_dir=str(tmp_path / "before"), export_base=str(base), **FOLDERS)
    for _ in range(2):
        mono.Estimator(Users, config).export_saved_model()
    with ExitStack() as cleanup:
        follows = ServedModel(ModelConfig(base=base), num_kept=2)
        secret = SharedSecret.of_folder(base)
        follower = cleanup.enter_context(Follower(follows.current, "127.0.0.1:0", secret=secret))
        follows.follow(follower)
        yield base, follows, ServedModel(ModelConfig(base=base, version=1)), follower.address


def answer(model, uid):
    return model.predict({"uid": np.array([uid]), **COLUMNS})


def test_servers_forget_in_every_version_in_memory(served, tmp_path):
    base, follows, looks, address = served
    with pytest.raises(Exception, match="secret"):
        ask_to_forget(address, {"uid": [USER]}, secret=SharedSecret.new("a stranger"))
    assert answer(follows.current, USER) != answer(follows.current, 99)
    report = forget(tmp_path / "before", "--export-base", str(base), "--server", address)
    places = {one["place"] for one in report["found"]}
    assert {f"the server at {address}", str(base / "1"), str(base / "2")} <= places
    for model in follows.held:
        assert answer(model, USER) == answer(model, 99)
        assert answer(model, OTHER) != answer(model, 99)
    looks.refresh()  # a pinned version whose files were replaced is loaded again
    assert looks.current.version == 1 and answer(looks.current, USER) == answer(looks.current, 99)


def test_a_server_that_takes_deltas_and_got_none_loads_the_files_again(served, tmp_path):
    base, follows, _, _ = served
    forget(tmp_path / "before", "--export-base", str(base))
    follows.refresh()
    assert answer(follows.current, USER) == answer(follows.current, 99)


def test_a_server_that_is_away_is_named(served, tmp_path):
    base, _, _, _ = served
    report = forget(tmp_path / "before", "--export-base", str(base), "--server", "127.0.0.1:1", code=1)
    assert [one["place"] for one in report["left"]] == ["the server at 127.0.0.1:1"]


def test_a_run_that_waits_for_events_forgets_at_once_and_for_good(tmp_path):
    folder, base, stream = tmp_path / "model", tmp_path / "model" / "exports", Stream()
    saves = dict(save_checkpoints_steps=5, delta_every_steps=2)
    with ExitStack() as cleanup:
        cleanup.enter_context(training(folder, stream, enable_controller=True, export_base=str(base), **saves))
        assert files_with(folder, USER) and list_deltas(folder)
        report = forget(folder)
        assert f"the run in {folder}" in {one["place"] for one in report["found"]}
        assert report["left"] == [] and files_with(folder, USER) == []
        num_deltas = len(list_deltas(folder))
    # The run went on with other events, and saved and exported: it knows nothing of the id, not even that it went.
    assert files_with(folder, USER) == [] and len(list_snapshots(folder)) > 2
    assert len(list_deltas(folder)) > num_deltas
    assert check_chain(chain_to(latest_state(folder)))


def test_a_run_that_does_not_listen_is_not_gone_behind(tmp_path):
    stream = Stream(num_batches=2)
    with training(tmp_path, stream):
        before = files_with(tmp_path, USER)
        done = CliRunner().invoke(app, ["forget", str(tmp_path), "--table", "uid", "--id", str(USER)])
        assert done.exit_code == 1 and "start it with --enable-controller" in str(done.exception)
        looked = forget(tmp_path, "--dry-run")
        assert "a run trains here" in looked["left"][0]["reason"]
        assert files_with(tmp_path, USER) == before


class Ask(mono.Hook):
    """Forgets from another thread, as a request does, after step 6; the run goes on when it is answered."""

    def after_run(self, context, values):
        if context.global_step == 6:
            self.thread = threading.Thread(target=self.ask, args=(context,))
            self.thread.start()

    def before_run(self, context):
        if context.global_step == 6:
            self.thread.join(PATIENCE_SECONDS)

    def ask(self, context):
        self.found = context.forget({"uid": {USER}, "unknown": {1}})
        self.has = context.tables["uid"].contains(torch.tensor([USER, OTHER])).tolist()


def test_rows_on_parameter_servers_go_and_the_next_save_is_whole(tmp_path):
    asks = Ask()
    saves = dict(save_checkpoints_steps=100, delta_every_steps=2)
    config = RunnerConfig(model_dir=str(tmp_path), num_ps=2, **saves, **FOLDERS)
    run_with_local_servers(Users(), config, hooks=[asks], source=Stream(num_batches=6).after(), steps=12)
    assert asks.found == {"rows": {"uid": [USER], "unknown": []}, "counts": {"uid": [], "unknown": []}}
    assert asks.has == [False, True]
    assert [path.name for path in list_snapshots(tmp_path)] == [f"model.ckpt-{step}" for step in (0, 2, 8)]
    with_user = {path.parent.parent.name for path in tmp_path.rglob("uid-*") if bytes_of_user() in path.read_bytes()}
    assert with_user == {"model.ckpt-2", "model.ckpt-2.delta-1", "model.ckpt-2.delta-2"}


def bytes_of_user():
    return USER.to_bytes(8, "little")


def test_the_chief_of_a_job_is_asked_where_it_listens_for_workers(tmp_path):
    train(tmp_path, steps=2)
    folder, asked = tmp_path / CLUSTER_FOLDER, []

    def answer_of_chief(ids):
        asked.append(ids)
        return {"rows": {"uid": [USER]}, "counts": {"uid": []}}

    with (
        ModelDirOwner(tmp_path),
        Coordinator(2, secret=SharedSecret.made_in_folder(folder)) as chief,
        FilesServiceDiscovery(folder) as discovery,
    ):
        discovery.register(WORKER, 0, str(chief.address))
        done = CliRunner().invoke(app, ["forget", str(tmp_path), "--table", "uid", "--id", str(USER)])
        assert "the job is not training yet" in str(done.exception)
        chief.open(Opening(generation=3, servers=["127.0.0.1:1"], plan_hash=7, settings={}))
        chief.on_forget(answer_of_chief)
        report = forget(tmp_path)
    assert asked == [{"uid": [USER]}]
    assert report["found"][0] == {"place": f"the run in {tmp_path}", "kind": "row", "table": "uid", "ids": [USER]}
    assert files_with(tmp_path, USER) == []
