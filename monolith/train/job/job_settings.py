"""What the settings of a run say about its job."""

from typing import Any

from monolith.cluster.discovery import ServiceDiscovery
from monolith.parallel import RetryConfig
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import tls_config
from monolith.train.job.place import JobPlace
from monolith.train.job.retries import AUTOMATIC_RETRIES, Retries

CALL_SECONDS = 30.0
"""How long a parameter server may be silent, if operation_timeout_in_ms does not say it."""

_ATTEMPT_SECONDS = 20.0
_COMMON = ("num_ps", "num_workers", "seed", "enable_fused_layout", "params_override")
"""Settings that chief and workers must have in common."""


def is_job(config: RunnerConfig) -> bool:
    """Return whether a run is one process of several: its settings name others, or a role among them."""
    names_others = config.num_ps > 0 or config.num_workers > 1 or config.server_type == "ps" or config.index > 0
    return names_others and not config.is_local


def check_role(config: RunnerConfig) -> None:
    """Reject a role that no job has, in the words of the specification where it has some."""
    if config.index is None:
        raise ValueError("Index can't be none.")
    if not str(config.model_dir):
        raise ValueError("model dir can't be empty.")
    if config.num_ps < 1:
        raise ValueError(
            f"num_ps={config.num_ps}: workers have their tables on parameter servers; start at least one (num_ps=1)"
        )
    name = "num_ps" if config.server_type == "ps" else "num_workers"
    if not 0 <= config.index < getattr(config, name):
        raise ValueError(f"index={config.index}: there is no such {config.server_type}, {name}={getattr(config, name)}")
    if config.partial_recovery:
        raise NotImplementedError(
            "partial_recovery=True: restoring only the lost parameter server is not there yet; without it all go back "
            "to the newest snapshot, and no batch is lost or repeated"
        )


def place_of(config: RunnerConfig, discovery: ServiceDiscovery | None) -> JobPlace:
    """Return where the processes of a job find each other, by default in `<model_dir>/cluster`."""
    return JobPlace.in_folder(
        config.model_dir,
        discovery=discovery,
        tls=tls_config(config),
        wait_seconds=float(config.session_creation_timeout_secs),
    )


def common_settings(config: RunnerConfig) -> dict[str, Any]:
    """Return the settings that chief and workers must have in common."""
    return {name: getattr(config, name) for name in _COMMON}


def call_retry(config: RunnerConfig) -> RetryConfig:
    """Return how long calls between processes may take."""
    seconds = config.operation_timeout_in_ms / 1000 if config.operation_timeout_in_ms > 0 else CALL_SECONDS
    return RetryConfig(deadline_seconds=seconds, attempt_seconds=min(seconds, _ATTEMPT_SECONDS))


def retries_of(config: RunnerConfig) -> Retries:
    """Return how often a process begins again."""
    automatic = AUTOMATIC_RETRIES if config.partial_recovery else 0
    return Retries(max_retries=config.max_retry_times or automatic, wait_seconds=float(config.retry_wait_in_secs))
