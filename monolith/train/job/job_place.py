"""Where the processes of a run's job meet, and what they must have in common, by its settings."""

from typing import Any

from monolith.cluster.discovery import ServiceDiscovery
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import tls_config
from monolith.train.job.place import JobPlace

_COMMON = ("num_ps", "num_workers", "seed", "enable_fused_layout", "params_override")


def place_of(config: RunnerConfig, discovery: ServiceDiscovery | None) -> JobPlace:
    """Return where the processes of a job find each other, by default in `<model_dir>/cluster`."""
    if not str(config.model_dir):
        raise ValueError("model dir can't be empty.")
    return JobPlace.in_folder(
        config.model_dir,
        discovery=discovery,
        tls=tls_config(config),
        wait_seconds=float(config.session_creation_timeout_secs),
    )


def common_settings(config: RunnerConfig) -> dict[str, Any]:
    """Return the settings that chief and workers must have in common."""
    return {name: getattr(config, name) for name in _COMMON}
