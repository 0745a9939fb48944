"""What `monolith train` does."""

import math
from collections.abc import Mapping
from typing import Any

import typer

from monolith.checkpoint import snapshot_path
from monolith.cli.console import console, print_error
from monolith.cli.mistakes import error_words
from monolith.cli.models.estimators import config_of, estimator_of
from monolith.errors import FencedError
from monolith.launch.supervisor import LOST, SCALED
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import job_config
from monolith.train.job.place import DISPATCHER, DSWORKER, PS
from monolith.train.job.retries import is_loss
from monolith.train.job.run_job import run_job
from monolith.train.job_config import JobConfig
from monolith.train.roles.role import with_role


def run(model: str, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Train, and print how it ended."""
    config = with_role(config_of(settings))
    try:
        _train(model, settings, own, config)
    except Exception as error:
        if not is_loss(error) or not _has_a_place(error, job_config(config)):
            raise
        print_error(error_words(error))
        raise typer.Exit(LOST) from error


def _has_a_place(error: Exception, job: JobConfig) -> bool:
    """Return whether there is a job that a process may join again after such a loss."""
    # Ranks are started again all together: one that was fenced was so by another job in their place.
    return job.is_job or (job.is_sync and not isinstance(error, FencedError))


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
