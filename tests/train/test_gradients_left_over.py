"""A run does not add the gradients that an earlier one left when it failed inside a step."""

import pytest

import monolith as mono
from tests.train.job.counting_job import BATCH, Counting, config_of

NUM_BATCHES = 3


def test_a_run_after_one_that_failed_in_a_step_counts_every_batch_once(tmp_path, monkeypatch):
    estimator = mono.Estimator(Counting, config_of(tmp_path), params={"events": NUM_BATCHES * BATCH})
    with monkeypatch.context() as patched:
        patched.setattr(Counting, "dense_step", fails)
        with pytest.raises(ConnectionError):
            estimator.train()
    assert estimator.model.weight.grad is not None  # or else this test shows nothing
    # Its rows have the batch, its weights have not: the way out is the newest snapshot, which is of the start.
    assert estimator.train().global_step == NUM_BATCHES
    assert float(estimator.get_variable_value("weight")) == NUM_BATCHES


def fails(model, optimizer):
    raise ConnectionError("the owner of the weights is away, says the test")
