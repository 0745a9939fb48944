"""Rows fetched before their turn, gradients pushed in the background: never older than asked for, and none is lost."""

import threading

import pytest
import torch

import monolith as mono
from monolith.checkpoint import list_snapshots
from monolith.checkpoint.inspect import diff_snapshots
from monolith.errors import NotFiniteError
from monolith.observe.metric_client import get_cli
from monolith.train.config import RunConfig, RunnerConfig
from monolith.train.config.run_settings import job_config
from monolith.train.job.ahead import Lane, WorkingAhead
from monolith.train.job.parameter_server import run_ps
from monolith.train.job.place import place_of
from monolith.train.trained_model import TrainedModel
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH, Counting, config_of
from tests.train.job.test_local_servers import Rated


class OneId(Counting):
    """All events are of one id: its row says how many batches the servers had applied when it was read."""

    def input_fn(self, mode):
        count = self.params["events"]
        columns = {"uid": torch.zeros(count, dtype=torch.int64), "label": torch.arange(count).float()}
        return mono.data.arrays(columns, batch_size=BATCH)


class BadGradient(OneId):
    """The gradient of the rows of one batch, that of events 40 to 47, is infinite."""

    def model_fn(self, features, mode):
        spec = super().model_fn(features, mode)
        if float(features["label"][0]) == 40:
            spec.pred.register_hook(lambda gradient: gradient * torch.inf)
        return spec


class Seen(mono.Hook):
    """What batches were computed with."""

    def __init__(self):
        self.losses, self.rows, self.weights, self.steps = [], [], [], []

    def after_run(self, context, values):
        self.losses.append(values.loss)
        self.rows.append(float(values.spec.pred.detach()[0]))
        self.weights.append(float(next(context.model.parameters()).detach().flatten()[0]))
        self.steps.append(values.step)


def train_job(folder, model, params=None, **settings):
    """Be the chief of a job whose parameter server is a thread of this process."""
    max_steps = settings.pop("max_steps", None)
    config = config_of(folder, num_ps=1, num_workers=1, retry_wait_in_secs=0, **settings)
    server = threading.Thread(target=run_ps, args=(place_of(config, None), job_config(config)), daemon=True)
    server.start()
    seen = Seen()
    try:
        result = mono.Estimator(model, config, params=params).train(hooks=[seen], max_steps=max_steps)
    except Exception as error:
        error.seen = seen
        raise
    server.join(PATIENCE_SECONDS)
    assert not server.is_alive()
    return result, seen


@pytest.mark.parametrize("staleness", [1, 3])
def test_rows_are_ahead_but_never_older_than_asked_for(tmp_path, staleness):
    params = {"events": 40 * BATCH, "seconds": 0.002}
    result, seen = train_job(tmp_path, OneId, params, max_staleness=staleness, max_steps=35)
    assert result.global_step == 35
    assert "_job_staleness " in get_cli().text() and "_job_queue " in get_cli().text()
    assert seen.steps == list(range(35))
    lags = [number - rows / BATCH for number, rows in enumerate(seen.rows)]
    assert 0 <= min(lags) and 0 < max(lags) <= staleness
    assert all(number - weight <= staleness for number, weight in enumerate(seen.weights))
    # The position and every snapshot are of batches that were applied, and of all of them.
    for path in list_snapshots(tmp_path):
        step = int(path.name.rpartition("-")[2])
        ((_, row),) = rows_of(path)
        assert row == step * BATCH
    again, _ = train_job(tmp_path, OneId, params, max_staleness=staleness)
    assert again.global_step == 40
    ((_, row),) = rows_of(list_snapshots(tmp_path)[-1])
    assert row == 40 * BATCH


def rows_of(path):
    trained = TrainedModel(OneId({"events": 0}), path)
    return [
        (number, float(row[0]))
        for ids, values in trained.tables["uid"].items()
        for number, row in zip(ids, values, strict=True)
    ]


def test_pushing_in_the_background_alone_gives_the_bits_of_one_process(tmp_path):
    seen = {"alone": Seen()}
    alone = config_of(tmp_path / "alone", save_checkpoints_steps=5)
    mono.Estimator(Rated, alone).train(hooks=[seen["alone"]])
    for name, settings in {"in_turn": {}, "behind": {"enable_embedding_postpush": True}}.items():
        _, seen[name] = train_job(tmp_path / name, Rated, save_checkpoints_steps=5, **settings)
        assert seen[name].losses == seen["alone"].losses
        for ours, theirs in zip(list_snapshots(tmp_path / name), list_snapshots(tmp_path / "alone"), strict=True):
            difference = diff_snapshots(ours, theirs)
            assert not difference.dense_changed
            assert [(one.added, one.removed, one.changed) for one in difference.tables] == [(0, 0, 0)] * 2


def test_an_error_of_a_push_in_the_background_ends_the_run_with_its_place(tmp_path):
    with pytest.raises(NotFiniteError, match=r"events \[40, 48\) of partition") as caught:
        train_job(tmp_path, BadGradient, {"events": 400}, max_staleness=2, save_checkpoints_steps=1000)
    assert any("while pushing" in note and "in the background" in note for note in caught.value.__notes__)
    assert 5 <= len(caught.value.seen.steps) <= 8
    assert [path.name for path in list_snapshots(tmp_path)] == ["model.ckpt-0"], "nothing half done is saved"


def test_only_who_asks_for_it_gets_older_rows(tmp_path):
    ahead = {
        name: job_config(config).ahead
        for name, config in {
            "nothing": RunnerConfig(),
            "as the original sets it": RunConfig(num_ps=1).to_runner_config(),
            "asked": RunnerConfig(embedding_prefetch_capacity=2),
            "bounded": RunnerConfig(embedding_prefetch_capacity=4, max_staleness=3),
            "never older": RunnerConfig(embedding_prefetch_capacity=4, max_staleness=0),
            "behind": RunnerConfig(enable_variable_postpush=True),
        }.items()
    }
    assert list(ahead.values()) == [None, None, 2, 3, None, 0]
    with pytest.raises(ValueError, match="max_staleness must not be negative, got -1"):
        mono.Estimator(OneId, config_of(tmp_path, max_staleness=-1), params={"events": 8}).train()
    with pytest.warns(UserWarning, match="no effect in one process"):
        mono.Estimator(OneId, config_of(tmp_path, max_staleness=1), params={"events": 8}).train()


class Waits:
    """A source whose second batch comes when a test says so."""

    def __init__(self, batches, event):
        self._batches, self._event, self._place = batches, event, 0

    def __iter__(self):
        for number, batch in enumerate(self._batches):
            if number == 1:
                assert self._event.wait(PATIENCE_SECONDS)
            self._place = number + 1
            yield batch

    def state(self):
        return {"place": self._place}


def test_a_batch_that_has_not_come_holds_up_none_before_it():
    batches = list(mono.data.arrays({"uid": torch.arange(24)}, batch_size=8))
    trained = threading.Event()
    with WorkingAhead(Waits(batches, trained), lambda batch: batch.first, 2) as ahead:
        found = []
        for batch in ahead.batches():
            found.append((batch.first, ahead.rows(), ahead.position()["place"]))
            trained.set()
    assert found == [(0, 0, 1), (8, 8, 2), (16, 16, 3)]


def test_after_a_failure_a_lane_does_nothing_more():
    done = []
    with Lane("test") as lane:
        lane.submit(lambda: done.append(1), doing="one")
        failed = lane.submit(lambda: 1 // 0, doing="dividing")
        lane.submit(lambda: done.append(2), doing="two")
        lane.settle()
        with pytest.raises(ZeroDivisionError) as caught:
            lane.drain()
    assert failed.exception() is caught.value
    assert caught.value.__notes__ == ["this happened while dividing, in the background"]
    assert done == [1]
    assert lane.num_waiting == 0
