"""The loop: what a step does and in which order, what it refuses, what it shows."""

import io
import math
from unittest import mock

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.data import Batch, EventLogSource, EventLogWriter, Schema
from monolith.data.synthetic import MovieEvents
from monolith.embedding import SgdOptimizer, ZerosInitializer
from monolith.errors import ModelDirInUseError, NotFiniteError, PlanMismatchError
from monolith.model.lookup import Lookup
from monolith.model.metrics import auc
from monolith.train import LiveView
from monolith.train.controller import QueryActionHook
from monolith.train.hooks import standard
from tests.model.movie_model import MovieRanking, write_movie_log
from tests.train.recorder import Recorder

SCHEMA = Schema.of(seq="int64", value="float32")


class Counting(mono.MonolithModel):
    """Every event adds exactly 1 to the row of its own number: a row that is not 1 was not trained exactly once."""

    def __init__(self, params):
        super().__init__(params)
        one = SgdOptimizer(learning_rate=1.0)
        self.create_embedding_feature_column("seq", optimizer=one, initializer=ZerosInitializer())

    def input_fn(self, mode):
        return self.params["source"]

    def model_fn(self, features, mode):
        (count,) = self.lookup_embedding_slice(["seq"], slice_dim=1)
        loss = -(count.squeeze(1) * features["value"]).sum()
        return mono.EstimatorSpec(label=None, pred=count.squeeze(1), loss=loss)


class ListSource:
    """Events in memory."""

    schema = SCHEMA

    def __init__(self, values, batch_size=4):
        self.values, self.batch_size, self.position = values, batch_size, 0

    def __iter__(self):
        while self.position < len(self.values):
            first, self.position = self.position, min(len(self.values), self.position + self.batch_size)
            value = torch.tensor(self.values[first : self.position])
            yield Batch({"seq": torch.arange(first, self.position), "value": value}, first, self.position)

    def state(self):
        return {"0": self.position}

    def restore(self, state):
        self.position = state["0"]


def train(tmp_path, model, params=None, hooks=(), sync=None, max_steps=None, steps=None, **config):
    settings = mono.RunConfig(**{"model_dir": tmp_path, "log_step_count_steps": 0, **config})
    estimator = mono.Estimator(model, settings, params=params)
    return estimator, estimator.train(hooks=hooks, sync=sync, max_steps=max_steps, steps=steps)


def test_every_event_counts_once(tmp_path):
    hook = Recorder()
    train(tmp_path, Counting, {"source": ListSource([1.0] * 10)}, hooks=[hook])
    assert hook.rows["seq"] == {one: [1.0] for one in range(10)}


def test_moments_and_effects_have_a_fixed_order(tmp_path):
    hook = Recorder()
    train(
        tmp_path,
        Counting,
        {"source": ListSource([1.0] * 8)},
        hooks=[hook],
        sync=lambda state: hook.moments.append(f"sync {state.global_step}"),
    )
    assert hook.moments == [
        *("begin", "after_create_session"),
        *("before_run 0", "sync 1", "after_run 1", "before_run 1", "sync 2", "after_run 2"),
        "end",
    ]
    assert hook.error is None


def test_hooks_are_called_in_their_order(tmp_path):
    """Those that settings ask for, which may hold a run up, then those of the call, then those of the model."""
    called = []

    class Named(mono.Hook):
        def __init__(self, name):
            self.name = name

        def begin(self):
            called.append(("begin", self.name))

        def after_create_session(self, context):
            called.append(("after_create_session", self.name))

        def before_run(self, context):
            called.append(("before_run", self.name))

        def after_run(self, context, values):
            called.append(("after_run", self.name))

        def end(self, context):
            called.append(("end", self.name))

    class WithHook(Counting):
        def __init__(self, params):
            super().__init__(params)
            self.add_training_hook(Named("model"))

    class Asked(QueryActionHook):
        def before_run(self, context):
            called.append(("before_run", "settings"))

    with mock.patch.object(standard, "QueryActionHook", Asked):
        hooks = [Named("first"), Named("second")]
        train(tmp_path, WithHook, {"source": ListSource([1.0] * 4)}, hooks=hooks, enable_controller=True)
    order = ["first", "second", "model"]
    assert [name for moment, name in called if moment == "before_run"] == ["settings", *order]
    for moment in ("begin", "after_create_session", "after_run", "end"):
        assert [name for one, name in called if one == moment] == order


def test_steps_and_max_steps_limit_a_run(tmp_path):
    source = [1.0] * 40
    assert train(tmp_path, Counting, {"source": ListSource(source)}, steps=2)[1].global_step == 2
    assert train(tmp_path, Counting, {"source": ListSource(source)}, steps=3)[1].global_step == 5
    assert train(tmp_path, Counting, {"source": ListSource(source)}, steps=9, max_steps=6)[1].global_step == 6
    assert train(tmp_path, Counting, {"source": ListSource(source)}, max_steps=6)[1].global_step == 6
    assert train(tmp_path, Counting, {"source": ListSource(source)})[1].global_step == 10


def test_a_loss_that_is_not_finite_names_step_and_events_and_changes_nothing(tmp_path):
    hook = Recorder()
    values = [1.0] * 8 + [float("nan")] * 4 + [1.0] * 4
    with pytest.raises(NotFiniteError, match=r"loss is nan at step 2, events \[8, 12\) of partition '0'"):
        train(tmp_path, Counting, {"source": ListSource(values)}, hooks=[hook], save_checkpoints_steps=1)
    assert hook.rows["seq"] == {one: [1.0] for one in range(8)}
    assert isinstance(hook.error, NotFiniteError)
    assert hook.moments[-1] == "end"
    assert latest_state(tmp_path).name == "model.ckpt-2"
    values[8:12] = [1.0] * 4
    assert train(tmp_path, Counting, {"source": ListSource(values)}, hooks=[hook])[1].global_step == 4
    assert hook.rows["seq"] == {one: [1.0] for one in range(16)}


class BadGradient(Counting):
    """The loss is finite, its gradient is not: the root of 0."""

    def __init__(self, params):
        super().__init__(params)
        self.weight = nn.Parameter(torch.zeros(1))
        self.other = nn.Parameter(torch.ones(1))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    def model_fn(self, features, mode):
        (count,) = self.lookup_embedding_slice(["seq"], slice_dim=1)
        bad = {"weight": self.weight, "rows": count}.get(self.params["where"], self.other)
        loss = bad.abs().sqrt().sum() + self.other.sum() + count.sum()
        return mono.EstimatorSpec(label=None, pred=count, loss=loss, optimizer=self.optimizer)


@pytest.mark.parametrize(("where", "message"), [("weight", "gradient of weight"), ("rows", "gradient of rows seq/vec")])
def test_a_gradient_that_is_not_finite_changes_neither_rows_nor_weights(tmp_path, where, message):
    hook = Recorder()
    params = {"source": ListSource([1.0] * 4), "where": where}
    estimator = mono.Estimator(BadGradient, mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0), params=params)
    with pytest.raises(NotFiniteError, match=f"{message} is not finite at step 0"):
        estimator.train(hooks=[hook])
    assert hook.rows["seq"] == {}
    assert_untrained(estimator.model)


def test_a_push_that_fails_leaves_weights_and_optimizer_as_they_were(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise OSError("the tables are out of reach")

    params = {"source": ListSource([1.0] * 8), "where": "nowhere"}
    estimator = mono.Estimator(BadGradient, mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0), params=params)
    with monkeypatch.context() as patch:
        patch.setattr(Lookup, "push", fail)
        with pytest.raises(OSError, match="out of reach"):
            estimator.train()
    assert_untrained(estimator.model)
    estimator.train(steps=1)
    assert estimator.model.other.item() != 1.0  # what was looked at does change in a step


def assert_untrained(model):
    assert (model.weight.item(), model.other.item()) == (0.0, 1.0)
    assert not model.optimizer.state  # no momentum either


class NewOptimizers(Counting):
    """Builds an optimizer in every call, with momentum to forget."""

    def __init__(self, params):
        super().__init__(params)
        self.weight = nn.Parameter(torch.zeros(1))
        self.made = 0

    def model_fn(self, features, mode):
        (count,) = self.lookup_embedding_slice(["seq"], slice_dim=1)
        self.made += 1
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0, momentum=1.0)
        return mono.EstimatorSpec(label=None, pred=count, loss=self.weight.sum() + count.sum(), optimizer=optimizer)


def test_of_optimizers_built_in_model_fn_the_first_is_kept_with_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="builds an optimizer in every call") as warned:
        estimator, _ = train(tmp_path, NewOptimizers, {"source": ListSource([1.0] * 12)})
    assert sum("builds an optimizer" in str(one.message) for one in warned) == 1
    # Momentum 1 makes the steps 1, 2, 3; an optimizer that forgets would take 1, 1, 1.
    assert estimator.model.weight.item() == -6


def test_dense_weights_without_an_optimizer_are_refused(tmp_path):
    class NoOptimizer(NewOptimizers):
        def model_fn(self, features, mode):
            return super().model_fn(features, mode)._replace(optimizer=None)

    with pytest.raises(ValueError, match="dense_optimizer not found!"):
        train(tmp_path, NoOptimizer, {"source": ListSource([1.0] * 4)})


def test_a_source_that_repeats_events_is_refused(tmp_path):
    class Repeating(ListSource):
        def __iter__(self):
            for batch in super().__iter__():
                yield batch
                yield batch

    with pytest.raises(RuntimeError, match=r"gave 0\[0, 4\) where 4 is next: it would repeat events"):
        train(tmp_path, Counting, {"source": Repeating([1.0] * 12)})


@pytest.mark.parametrize(("step", "is_refused"), [(3, True), (4, False), (5, False)])
def test_batches_may_leave_events_out_but_not_share_one(tmp_path, step, is_refused):
    class Stepping(ListSource):
        def __iter__(self):
            for first in range(0, 3 * step, step):
                self.position = first + 4
                seq = torch.arange(first, first + 4)
                yield Batch({"seq": seq, "value": torch.ones(4)}, first, first + 4)

    hook = Recorder()
    if is_refused:
        with pytest.raises(RuntimeError, match=r"gave 0\[3, 7\) where 4 is next"):
            train(tmp_path, Counting, {"source": Stepping([])}, hooks=[hook])
        assert hook.rows["seq"] == {one: [1.0] for one in range(4)}
    else:
        assert train(tmp_path, Counting, {"source": Stepping([])})[1].global_step == 3


def test_a_model_with_another_plan_does_not_take_the_snapshot(tmp_path):
    class Wider(Counting):
        def model_fn(self, features, mode):
            (count,) = self.lookup_embedding_slice(["seq"], slice_dim=2)
            return mono.EstimatorSpec(label=None, pred=count, loss=count.sum())

    train(tmp_path, Counting, {"source": ListSource([1.0] * 4)})
    with pytest.raises(PlanMismatchError, match="dimSize: 1 there, 2 here"):
        train(tmp_path, Wider, {"source": ListSource([1.0] * 4)})


def test_two_runs_in_one_folder_are_refused(tmp_path):
    class Nested(Recorder):
        def after_run(self, context, values):
            with pytest.raises(ModelDirInUseError, match="is being trained in by another process"):
                train(tmp_path, Counting, {"source": ListSource([1.0] * 4)})
            super().after_run(context, values)

    hook = Nested()
    train(tmp_path, Counting, {"source": ListSource([1.0] * 4)}, hooks=[hook])
    assert len(hook.losses) == 1


def test_the_architecture_model_learns_what_is_planted(tmp_path):
    num_events = 60_000
    world = MovieEvents(3, users=300, movies=100, drift_seconds=math.inf, new_movies_per_second=0)
    with EventLogWriter(tmp_path / "log", world.schema) as writer:
        writer.append(world.events(0, num_events))

    class Scores(Recorder):
        def after_create_session(self, context):
            super().after_create_session(context)
            self.early = None

        def after_run(self, context, values):
            super().after_run(context, values)
            if values.last >= 5_000 and self.early is None:
                self.early = context.read_metrics()["auc"]

    hook = Scores()
    params = {"log": str(tmp_path / "log")}
    _, result = train(tmp_path / "model", MovieRanking, params, hooks=[hook], metric_window=5_000)
    best = world.planted_auc(num_events - 5_000, 5_000)
    assert result.metrics["auc"] > hook.early + 0.05
    assert result.metrics["auc"] > 0.5 + 0.7 * (best - 0.5)


def test_metrics_are_of_predictions_made_before_training(tmp_path):
    """Labels are noise: a model that was measured after training on them would look clever."""
    random = np.random.default_rng(0)
    columns = write_movie_log(tmp_path / "one", 0)
    assert not len(columns["uid"])
    events = MovieEvents(1, users=300, movies=100).events(0, 6_000)
    events["label"] = random.integers(0, 2, 6_000).astype(np.float32)
    events["uid"] = np.arange(6_000)
    with EventLogWriter(tmp_path / "log", EventLogSource(tmp_path / "one", batch_size=1).schema) as writer:
        writer.append(events)
    _, result = train(tmp_path / "model", MovieRanking, {"log": str(tmp_path / "log")})
    assert result.metrics["auc"] == pytest.approx(0.5, abs=0.04)
    assert auc(events["label"], events["label"]) == 1


def test_the_view_prints_lines_where_there_is_no_terminal(tmp_path):
    out = io.StringIO()
    ticks = iter(range(1_000))
    view = LiveView(every_steps=2, console=Console(file=out), clock=lambda: float(next(ticks)))
    write_movie_log(tmp_path / "log", 5 * 256)
    train(tmp_path / "model", MovieRanking, {"log": str(tmp_path / "log")}, hooks=[view])
    lines = out.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["step 0", "step 2", "step 4", "step 5"]
    for word in ("events/s", "loss", "auc", "logloss", "uid", "mov", "rows", "MB"):
        assert word in lines[1]


def test_the_view_on_a_terminal_shows_a_table_and_gives_the_cursor_back_after_an_error(tmp_path):
    out = io.StringIO()
    view = LiveView(console=Console(file=out, force_terminal=True, width=80))
    with pytest.raises(NotFiniteError):
        train(tmp_path, Counting, {"source": ListSource([1.0] * 4 + [float("nan")] * 4)}, hooks=[view])
    shown = out.getvalue()
    assert "rows of seq" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


@pytest.mark.parametrize("wrong", [{"save_checkpoints_steps": 0}, {"checkpoints_max_to_keep": 0}, {"metric_window": 0}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        mono.RunConfig(**{"model_dir": "model", **wrong})
