"""RunConfig: what a user says about a run."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from monolith.train.config.runner_config import RunnerConfig, ServiceDiscoveryType
from monolith.train.config.setting import setting
from monolith.train.config.shared_settings import SharedJobSettings, SharedRunnerSettings, SharedTrainingSettings

_RENAMED = {"enable_parameter_sync": "enable_realtime_training"}


@dataclass(kw_only=True)
class RunConfig(SharedTrainingSettings, SharedJobSettings, SharedRunnerSettings):
    """The settings that a user chooses in code; the command line may set those left at their default.

    >>> RunConfig(model_dir="model", save_checkpoints_steps=10).to_runner_config().snapshot_seconds is None
    True
    """

    # The original's defaults. A value that is at its default is not passed on, so that the command line applies: left
    # alone, those of a RunnerConfig hold, and docs/settings.md says so beside each that differs.
    partial_recovery: bool = setting(
        False, "Restore only the PS that are new after a failure; left at False, real-time training does so too."
    )
    max_retry_times: int = setting(
        6, "How often a process may begin again with other PS; left at 6: 6 times with partial recovery, else never."
    )
    retry_wait_in_secs: int = setting(5, "Seconds before a process that lost another begins again; left at 5: 30.")
    enable_parameter_sync: bool = setting(False, "Send changes to the servers while training.")

    def to_runner_config(self) -> RunnerConfig:
        """Return what runs: command-line flags apply unless code changed the value."""
        config = RunnerConfig(**{_RENAMED.get(name, name): getattr(self, name) for name in self.changed()})
        asked = config.changed()
        if config.discovery_type is ServiceDiscoveryType.CONSUL:
            config.discovery_type = ServiceDiscoveryType.ZK
        if not config.enable_gpu_training:
            config.embedding_prefetch_capacity = max(config.embedding_prefetch_capacity, 1)
            config.enable_embedding_postpush = True
        config.derived = [name for name in config.changed() if name not in asked]
        return config

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        self.to_runner_config()

    def changed(self) -> list[str]:
        """Return the names of the settings that differ from their default."""
        return [one.name for one in fields(self) if getattr(self, one.name) != one.default]

    def to_json(self) -> str:
        """Return the settings as a JSON object."""
        return json.dumps({**asdict(self), "model_dir": str(self.model_dir)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote; a name that is no setting is a ValueError."""
        values: Any = json.loads(text)
        unknown = sorted(set(values) - {one.name for one in fields(cls)})
        if unknown:
            raise ValueError(f"a RunConfig has no settings {', '.join(unknown)}")
        return cls(**values)

    @property
    def snapshot_seconds(self) -> float | None:
        """Seconds between snapshots that are in force."""
        return self.to_runner_config().snapshot_seconds
