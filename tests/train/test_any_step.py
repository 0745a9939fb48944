"""Whatever step a run was stopped at, the next hundred losses and the metrics are those of one that was not."""

import random
import shutil

import pytest

import monolith as mono
from monolith.checkpoint import list_snapshots
from tests.model.movie_model import MovieRanking
from tests.train.recorder import Recorder

BATCH, MAX_CUT, HUNDRED = 32, 40, 100
NUM_EVENTS = BATCH * (MAX_CUT + HUNDRED)
WINDOW = 500  # predictions: full after 16 steps, so it goes round on the way

pytestmark = pytest.mark.usefixtures("one_thread")


class Metrics(Recorder):
    """Also reads the metrics after each step."""

    def __init__(self):
        super().__init__()
        self.metrics = []

    def after_run(self, context, values):
        super().after_run(context, values)
        self.metrics.append(context.read_metrics())


def run(model_dir, log, steps, **settings):
    hook = Metrics()
    config = mono.RunConfig(
        model_dir=model_dir, log_step_count_steps=0, save_summary_steps=0, metric_window=WINDOW, **settings
    )
    params = {"batch_size": BATCH, "dropout": 0.3, "log": str(log)}
    mono.Estimator(MovieRanking, config, params=params).train(steps=steps, hooks=[hook])
    return hook


@pytest.fixture(scope="module")
def straight(tmp_path_factory, log):
    """The run that nobody disturbed."""
    return run(tmp_path_factory.mktemp("straight"), log, MAX_CUT + HUNDRED)


@pytest.mark.parametrize("delta_every_steps", [None, 1])
def test_the_next_hundred_losses_are_the_same_bit_for_bit(tmp_path, log, straight, delta_every_steps):
    cadence = {"save_checkpoints_steps": 1} if delta_every_steps is None else {"save_checkpoints_steps": 15}
    saved = tmp_path / "saved"
    run(saved, log, MAX_CUT, delta_every_steps=delta_every_steps, checkpoints_max_to_keep=MAX_CUT + 1, **cadence)
    states = sorted([*list_snapshots(saved), *saved.glob("*.delta-*")], key=_step)
    assert [_step(path) for path in states if _step(path)] == list(range(1, MAX_CUT + 1)), "not every step was saved"
    for path in random.sample(states, 4):
        folder = tmp_path / f"from-{path.name}"
        shutil.copytree(saved, folder)
        went_on = run(folder, log, HUNDRED, restore_ckpt=path.name)
        cut = _step(path)
        assert went_on.first_step == cut
        assert went_on.losses == straight.losses[cut : cut + HUNDRED], f"stopped at {path.name}"
        assert went_on.metrics == straight.metrics[cut : cut + HUNDRED], f"stopped at {path.name}"


def _step(path):
    base, _, number = path.name.partition(".delta-")
    return int(base.rpartition("-")[2]) + int(number or 0)
