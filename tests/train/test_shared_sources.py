"""Runs that share one source each read all of it."""

import numpy as np
import pytest
import torch

import monolith as mono
from monolith.data import EventLogWriter, Schema
from monolith.train.config import RunnerConfig

NUM_EVENTS, BATCH = 20, 4
COLUMNS = {"user": [f"u{n % 5}" for n in range(NUM_EVENTS)], "label": [float(n % 2) for n in range(NUM_EVENTS)]}
SCHEMA = Schema.of(user="hash", label="float32")


def from_csv(folder):
    lines = [f"{user},{label}" for user, label in zip(*COLUMNS.values(), strict=True)]
    (folder / "a.csv").write_text("\n".join(["user,label", *lines]))
    return mono.data.csv(folder / "a.csv", batch_size=BATCH, **dict(SCHEMA))


def from_arrays(folder):
    return mono.data.arrays(COLUMNS, batch_size=BATCH, schema=SCHEMA)


def from_frame(folder):
    frame = pytest.importorskip("pandas").DataFrame(COLUMNS)
    return mono.data.frame(frame, batch_size=BATCH, schema=SCHEMA)


def from_event_log(folder):
    with EventLogWriter(folder / "log", SCHEMA) as writer:
        writer.append(
            {name: ["before", *values] if name == "user" else [0.0, *values] for name, values in COLUMNS.items()}
        )
    return mono.data.event_log(folder / "log", batch_size=BATCH, start=1)


def from_iterable(folder):
    rows = [{"user": user, "label": label} for user, label in zip(*COLUMNS.values(), strict=True)]
    return mono.data.iterable(lambda: iter(rows), batch_size=BATCH, schema=SCHEMA)


class Users(mono.MonolithModel):
    """Returns one source, always the same, or steps on top of it."""

    steps = staticmethod(lambda source: source)

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column("user")
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def input_fn(self, mode):
        return self.steps(self.params)

    def model_fn(self, features, mode):
        (row,) = self.lookup_embedding_slice(["user"], slice_dim=2)
        pred = (row.sum(1) * self.scale).sigmoid()
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=pred)
        loss = torch.nn.functional.binary_cross_entropy(pred, features["label"])
        return mono.EstimatorSpec(label=features["label"], pred=pred, loss=loss, optimizer=self.optimizer)


class Prefetched(Users):
    """Puts new steps on the shared source in every run."""

    steps = staticmethod(lambda source: source.rebatch(BATCH).prefetch())


def estimator(model, folder, source):
    config = RunnerConfig(model_dir=folder, log_step_count_steps=0, save_summary_steps=0)
    return mono.Estimator(model, config, params=source)


@pytest.mark.parametrize("model", [Users, Prefetched])
@pytest.mark.parametrize("make", [from_csv, from_arrays, from_frame, from_event_log, from_iterable])
def test_two_estimators_share_a_source(make, model, tmp_path):
    source = make(tmp_path)
    begin = source.state()
    first, second = (estimator(model, tmp_path / name, source) for name in ("one", "two"))
    steps = first.train(max_steps=2).global_step
    assert source.state() == begin
    assert second.train().global_step >= NUM_EVENTS // BATCH
    assert len(list(second.predict())) == NUM_EVENTS
    assert np.isfinite(second.evaluate()["loss"])
    assert first.train().global_step == second.train().global_step > steps  # the rest, exactly once


def test_an_error_in_a_run_is_not_hidden(tmp_path):
    class Broken(Users):
        def model_fn(self, features, mode):
            if mode == mono.TRAIN and self.training:
                raise ZeroDivisionError("on purpose")
            return super().model_fn(features, mode)

    source = from_arrays(tmp_path)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        estimator(Broken, tmp_path / "one", source).train()
    assert source.state() == {"row": 0}
