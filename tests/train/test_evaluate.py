"""Evaluating and predicting from a snapshot: exact figures, and nothing changes."""

import numpy as np
import pytest
import torch

import monolith as mono
from monolith.hooks import Hook
from monolith.model.metrics import auc, logloss
from tests.model.movie_model import MovieRanking, write_movie_log
from tests.train.recorder import files_of


class Looked(Hook):
    def __init__(self):
        self.losses, self.ended = [], 0

    def after_run(self, context, values):
        self.losses.append(values.loss)
        if len(self.losses) == 3:
            context.request_stop()

    def end(self, context):
        self.ended += 1


class TwoHeads(MovieRanking):
    def model_fn(self, features, mode):
        spec = super().model_fn(features, mode)
        pred = {"like": spec.pred, "other": 1 - spec.pred}
        if mode == mono.PREDICT:
            return spec._replace(pred=pred)
        missing = torch.full_like(spec.label, torch.finfo(torch.float32).min)
        missing[::2] = 1 - spec.label[::2]  # half of the events say nothing about the second head
        return spec._replace(pred=pred, label={"like": spec.label, "other": missing})


@pytest.fixture
def trained(tmp_path):
    events = write_movie_log(tmp_path / "log", 4000)

    def make(model=MovieRanking):
        estimator = mono.Estimator(
            model,
            mono.RunConfig(model_dir=tmp_path / model.__name__, log_step_count_steps=0),
            params={"log": tmp_path / "log"},
        )
        estimator.train()
        return estimator

    return make, events


def test_metrics_are_those_of_the_predictions(trained):
    make, events = trained
    estimator = make()
    predicted = torch.cat([batch["pred"] for batch in estimator.predict(yield_single_examples=False)])
    found = estimator.evaluate(group_by="uid")
    assert found["auc"] == pytest.approx(auc(predicted, events["label"]), abs=1e-5)
    assert found["logloss"] == pytest.approx(logloss(predicted, events["label"]), rel=1e-6)
    assert found["calibration"] == pytest.approx(float(predicted.sum()) / events["label"].sum(), rel=1e-6)
    users = [events["uid"] == one for one in np.unique(events["uid"])]
    per_user = [(auc(predicted[torch.from_numpy(u)], events["label"][u]), u.sum()) for u in users]
    values, sizes = zip(*[(value, size) for value, size in per_user if not np.isnan(value)], strict=True)
    assert found["auc_by_uid"] == pytest.approx(np.average(values, weights=sizes), abs=1e-9)
    assert (found["num_events"], found["global_step"]) == (4000, 16)


def test_looking_changes_nothing(trained):
    make, _ = trained
    estimator = make()
    before = files_of(estimator.config.model_dir)
    weights = {name: value.clone() for name, value in estimator.model.state_dict().items()}
    first, second = estimator.evaluate(steps=3), estimator.evaluate(steps=3)
    assert first == second
    assert first["num_events"] == 3 * 256
    assert files_of(estimator.config.model_dir) == before
    assert all(torch.equal(value, weights[name]) for name, value in estimator.model.state_dict().items())


def test_heads_have_metrics_of_their_own_and_events_without_a_label_do_not_count(trained):
    make, events = trained
    estimator = make(TwoHeads)
    found = estimator.evaluate()
    batches = list(estimator.predict(yield_single_examples=False))
    like = torch.cat([batch["like"] for batch in batches])
    # Every second event of each batch; 256 is even, so every second of all.
    assert found["like_auc"] == pytest.approx(auc(like, events["label"]), abs=1e-5)
    assert found["other_auc"] == pytest.approx(auc(1 - like[::2], 1 - events["label"][::2]), abs=1e-5)
    single = next(estimator.predict(["other"]))
    assert list(single) == ["other"]
    assert single["other"] == batches[0]["other"][0]
    with pytest.raises(KeyError, match="no prediction 'clicks'; the model predicts like, other"):
        next(estimator.predict(["clicks"]))


def test_hooks_watch_and_may_stop_it(trained):
    make, _ = trained
    hook = Looked()
    found = make().evaluate(hooks=[hook])
    assert (len(hook.losses), hook.ended) == (3, 1)
    assert found["loss"] == pytest.approx(np.mean(hook.losses))


def test_an_older_snapshot_can_be_asked_for(trained, tmp_path):
    make, _ = trained
    estimator = make()
    with pytest.raises(FileNotFoundError, match="there is no snapshot in .*; train the model first"):
        mono.Estimator(MovieRanking, mono.RunConfig(model_dir=tmp_path / "none"), params={}).evaluate()
    at_start = tmp_path / "MovieRanking" / "model.ckpt-0"
    assert estimator.evaluate(checkpoint_path=str(at_start))["global_step"] == 0


@pytest.mark.parametrize("call", ["train", "evaluate"])
def test_steps_must_be_positive_and_hooks_must_be_hooks(trained, call):
    make, _ = trained
    estimator = make()
    with pytest.raises(ValueError, match="steps must be positive, got 0"):
        getattr(estimator, call)(steps=0)
    with pytest.raises(TypeError, match="must be monolith.Hook objects"):
        getattr(estimator, call)(hooks=[print])


def test_a_group_that_is_no_column_of_ids_is_refused(trained):
    make, _ = trained
    with pytest.raises(ValueError, match="group_by='label' must name a column of one id per event"):
        make().evaluate(group_by="label")


def test_what_only_training_needs_is_not_asked_for_here(trained, tmp_path):
    make, _ = trained
    make()
    config = mono.RunConfig(model_dir=tmp_path / "MovieRanking", enable_parameter_sync=True)  # no targets
    estimator = mono.Estimator(MovieRanking, config, params={"log": tmp_path / "log"})
    assert estimator.evaluate(steps=1)["num_events"] == 256
    with pytest.raises(ValueError, match="sync_targets is empty"):
        estimator.train()
