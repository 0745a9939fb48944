"""What `monolith train` does."""

import math
from collections.abc import Mapping
from typing import Any

import typer

from monolith.checkpoint import snapshot_path
from monolith.cli.console import console, print_error
from monolith.cli.mistakes import error_words
from monolith.cli.models.estimators import config_of, estimator_of
from monolith.launch.supervisor import SCALED
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import job_config
from monolith.train.job.place import DISPATCHER, DSWORKER, PS
from monolith.train.job.run_job import run_job
from monolith.train.roles.role import with_role

LOST = 1
"""Status of a process of a job that lost others: it may be started again."""


def run(model: str, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Train, and print how it ended."""
    config = with_role(config_of(settings))
    try:
        _train(model, settings, own, config)
    except (ConnectionError, TimeoutError) as error:
        job = job_config(config)
        if not job.is_job and not job.is_sync:
            raise
        print_error(error_words(error))
        raise typer.Exit(LOST) from error


def _train(model: str, settings: Mapping[str, Any], own: Mapping[str, Any], config: RunnerConfig) -> None:
    if config.server_type in (PS, DISPATCHER):
        job_config(config).check()
        run_job(None, config)  # it knows nothing of the model
        console.print("The chief ended the job.")
        return
    estimator = estimator_of(model, settings, own["params"])
    if config.server_type == DSWORKER:
        estimator.train()
        console.print("The chief ended the job.")
        return
    result = estimator.train(steps=own["steps"], max_steps=own["max_steps"])
    saved = f". Snapshot: {snapshot_path(estimator.config.model_dir, result.global_step)}"
    # What is not known, such as the AUC of equal labels or the loss of no step, is not printed.
    measured = {name: value for name, value in {"loss": result.loss, **result.metrics}.items() if not math.isnan(value)}
    words = ", ".join(f"{name} {value:.4f}" for name, value in measured.items())
    done = f"Trained to step {result.global_step}" if result.num_steps else f"At step {result.global_step}"
    # soft_wrap and no markup: a script may read the line.
    line = f"{done}{': ' if words else ''}{words}{'' if estimator.config.index else saved}"  # of a job, the chief saves
    console.print(line, soft_wrap=True, markup=False, highlight=False)
    if result.scale_to is not None:
        console.print(f"{result.ending}; start all processes with these numbers", soft_wrap=True, highlight=False)
        raise typer.Exit(SCALED)
