"""What a job of one worker leaves, to the last bit: the same wherever and however its processes run."""

from pathlib import Path

import numpy as np

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.train.config import RunConfig
from monolith.train.trained_model import TrainedModel
from tests.train.job.movie_job import Movies

ROW_EVENTS = 1000
ROW_MODEL = "tests.train.job.movie_job:Movies"


def rows_of(model_dir: Path):
    """Step, rows and weights of the newest snapshot."""
    trained = TrainedModel(Movies({"events": ROW_EVENTS}), latest_state(model_dir))
    rows = {}
    for name, table in sorted(trained.tables.tables.items()):
        for ids, values in table.items():
            rows |= {(name, one): bytes(row) for one, row in zip(ids.tolist(), np.asarray(values), strict=True)}
    assert trained.global_step == -(-ROW_EVENTS // 256) and len(rows) > 100
    return trained.global_step, rows, {name: one.tolist() for name, one in trained.model.state_dict().items()}


def rows_of_one_process(model_dir: Path):
    """The same of a run of this process."""
    mono.Estimator(Movies, RunConfig(model_dir=model_dir), params={"events": ROW_EVENTS}).train()
    return rows_of(model_dir)
