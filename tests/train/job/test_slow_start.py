"""A staggered start: how far the job is before worker i takes its first step."""

import math

import pytest

from monolith.model.hyper_params import Params
from monolith.parallel.coordination import WorkerLink
from monolith.train.config import RunnerConfig
from monolith.train.job import run_job as module
from monolith.train.job.place import coordinator_at, place_of
from monolith.train.job.run_job import run_job
from tests.train.job.counting_job import Counting


class AskedError(Exception):
    """A worker waits for a step."""


class Link(WorkerLink):
    """Says what its worker waits for, and does not wait."""

    def wait_for_step(self, step, *, timeout_seconds):
        raise AskedError(step, timeout_seconds)


class NoState:
    """What a worker has that has joined."""

    def __init__(self, *_, **__):
        pass

    def close(self):
        pass


def waits_for(folder, index, *, slow_start_steps=None, **settings):
    """The step that a worker of a job waits for before its first one, and its limit in seconds."""
    model = Counting({"events": 80})
    if slow_start_steps is not None:
        model.p = Params()
        model.p.define("train", Params(), "How it is trained.")
        model.p.train.define("slow_start_steps", slow_start_steps, "Steps before later workers begin.")
    config = RunnerConfig(model_dir=str(folder), num_ps=1, num_workers=4, index=index, **settings)
    with (
        place_of(config, None) as place,
        coordinator_at(place, config.num_workers),
        pytest.raises(AskedError) as asked,
    ):
        run_job(model, config)
    return asked.value.args


@pytest.fixture(autouse=True)
def only_the_start(monkeypatch):
    monkeypatch.setattr(module, "WorkerLink", Link)
    monkeypatch.setattr(module, "WorkerState", NoState)


@pytest.mark.parametrize("steps", [100, 7])
@pytest.mark.parametrize("index", [1, 2, 3])
def test_later_workers_wait_for_the_limit_times_the_logarithm_of_their_number(tmp_path, index, steps):
    step, _ = waits_for(tmp_path, index, slow_start_steps=steps)
    # e to this power, by its definition: 1 + index begins between this step and the next.
    assert math.exp(step / steps) <= 1 + index < math.exp((step + 1) / steps)


def test_known_steps(tmp_path):
    # ln 2 = 0.6931, ln 3 = 1.0986, ln 4 = 1.3863
    assert [waits_for(tmp_path, index, slow_start_steps=100)[0] for index in (1, 2, 3)] == [69, 109, 138]


def test_without_the_parameter_nobody_waits(tmp_path):
    assert waits_for(tmp_path, 3)[0] == waits_for(tmp_path, 3, slow_start_steps=0)[0] == 0


def test_the_wait_has_the_limit_of_the_settings(tmp_path):
    assert waits_for(tmp_path, 1, slow_start_steps=5, max_slow_start_wait_minute=7)[1] == 420.0
