"""run_online: the trainer of a live system that reads an event log."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from monolith.data import EventLogSource
from monolith.hooks import Hook
from monolith.model import MonolithModel
from monolith.train.config import RunConfig, RunnerConfig
from monolith.train.config.run_settings import job_config
from monolith.train.estimator import Estimator
from monolith.train.job.run_job import run_job
from monolith.train.loop import RunResult
from monolith.train.run import run


def run_online(
    model: type[MonolithModel] | MonolithModel,
    *,
    log_path: str | Path,
    model_dir: str | Path,
    export_base: str | Path,
    name: str,
    sync_targets: Sequence[str] = (),
    batch_size: int = 512,
    params: Any = None,
    max_steps: int | None = None,
    hooks: Sequence[Hook] = (),
    config: RunConfig | RunnerConfig | None = None,
) -> RunResult:
    """Train on a log as it grows, and keep servers up to date, until SIGTERM, Ctrl-C or `max_steps`.

    The same as an `Estimator` whose model follows the log, with `export_base`, `sync_targets` and `base_name` in its
    configuration. In a job, each of its processes calls it with its own role in a `RunnerConfig`.

    Args:
        model: what to train; a class is called with `params` after seeding.
        log_path: folder of the event log, which must exist.
        model_dir: folder of the snapshots.
        export_base: folder of the versions to serve.
        name: what requests call the model.
        sync_targets: where servers take deltas ("127.0.0.1:7001", "unix:/path").
        batch_size: events per step.
        params: for the model class.
        max_steps: end after this many steps of all runs together.
        hooks: watch the run.
        config: other settings of the run, and the role of this process if there are several.

    Raises:
        FencedError: a later trainer of this model has taken over its servers.
        NotImplementedError: `config` asks for parameter servers inside this process, or a GPU.
    """
    live = replace(
        RunConfig() if config is None else config,
        model_dir=model_dir,
        export_base=str(export_base),
        base_name=name,
        sync_targets=list(sync_targets),
    )
    estimator = Estimator(model, live, params=params)
    how: dict[str, Any] = {"max_steps": max_steps, "hooks": hooks}
    job = job_config(estimator.config)
    job.check()
    if job.is_job:
        read = partial(EventLogSource, log_path, batch_size=batch_size, follow=True)
        return run_job(estimator.model, estimator.config, make_source=read, **how)
    source = EventLogSource(log_path, batch_size=batch_size, follow=True)
    try:
        return run(estimator.model, estimator.config, source=source, **how)
    finally:
        source.close()
