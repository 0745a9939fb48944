"""LiveConfig: where a run sends what it learns, and how often."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monolith.model.hyper_params.spelling import to_snake_case
from monolith.train.config import RunnerConfig
from monolith.train.config.task_settings import task_parameter
from monolith.wire import TlsConfig

DEFAULT_SYNC_SECONDS = 0.5
REALTIME_SYNC_SECONDS = 10.0
"""The specification's period, in force where `enable_realtime_training` alone asks for pushes."""

EXPORT_FOLDER = "exported_models"


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveConfig:
    """Where a run sends what it learns, and how often."""

    export_base: Path
    """Folder of the versions to serve."""

    name: str
    """What requests call the model."""

    sync_targets: tuple[str, ...] = ()
    """Where servers take deltas ("127.0.0.1:7001", "unix:/path")."""

    sync_seconds: float = DEFAULT_SYNC_SECONDS
    """What changed goes to the servers this often."""

    export_seconds: float = 60.0
    """A version is exported this often, besides the one at the start."""

    keep_exports: int = 3

    skip_zero_embedding: bool = False
    """Serving tables leave out rows that are all zeros."""

    tls: TlsConfig | None = None
    """Certificates for the servers; without them they must be on this machine."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        for name in ("sync_seconds", "export_seconds", "keep_exports"):
            if not getattr(self, name) > 0:
                raise ValueError(f"LiveConfig: {name} must be positive, got {getattr(self, name)}")

    @classmethod
    def of(cls, config: RunnerConfig, model: Any) -> "LiveConfig | None":
        """Return what the settings of a run say; None unless they ask for live training.

        Raises:
            ValueError: `enable_realtime_training` without `sync_targets` or without `base_name`.
        """
        if not (config.enable_realtime_training or config.export_base or config.sync_targets):
            return None
        if config.enable_realtime_training:
            _require(config)
        targets = config.sync_targets or ()
        return cls(
            export_base=export_base_of(config, model),
            name=serving_name(config, model),
            sync_targets=tuple(targets.split(",") if isinstance(targets, str) else targets),
            sync_seconds=config.sync_every_seconds
            or (REALTIME_SYNC_SECONDS if config.enable_realtime_training else DEFAULT_SYNC_SECONDS),
            export_seconds=config.export_every_seconds,
            keep_exports=config.exports_max_to_keep,
            skip_zero_embedding=config.skip_zero_embedding_when_serving,
            tls=_tls(config),
        )


def _require(config: RunnerConfig) -> None:
    if not config.sync_targets:
        raise ValueError(
            "enable_realtime_training sends what is learned to servers, but sync_targets is empty; name where they "
            'take deltas, such as sync_targets=["127.0.0.1:7001"] (`monolith serve --sync-address`)'
        )
    if not config.base_name:
        raise ValueError(
            "Base name cannot be none while realtime training; set base_name to what requests call the model"
        )


def export_base_of(config: RunnerConfig, model: Any) -> Path:
    """Return the folder of a model's versions: `export_base`, else the task's own folder inside `model_dir`."""
    if config.export_base:
        return Path(config.export_base)
    return Path(config.model_dir) / (task_parameter(model, "serving", "export_dir_base") or EXPORT_FOLDER)


def serving_name(config: RunnerConfig, model: Any) -> str:
    """Return what requests call a model: `base_name`, else the name of its class in snake case."""
    return config.base_name or to_snake_case(type(model).__name__)


def _tls(config: RunnerConfig) -> TlsConfig | None:
    paths = {"cert_path": config.tls_cert, "key_path": config.tls_key, "ca_path": config.tls_ca}
    given = {name: path for name, path in paths.items() if path}
    if not given:
        return None
    if len(given) < len(paths):
        raise ValueError("TLS needs all three of tls_cert, tls_key and tls_ca")
    return TlsConfig(**given)
