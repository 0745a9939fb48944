"""JobPlace: where the processes of a job find each other, and how they prove that they belong to it."""

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from monolith.closing import Closing
from monolith.cluster.discovery import FilesServiceDiscovery, ServiceDiscovery, wait_for
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import tls_config
from monolith.wire import SharedSecret, TlsConfig

CLUSTER_FOLDER = "cluster"
"""In model_dir: addresses of the processes, and their secret."""

PS = "ps"
WORKER = "worker"
"""Names in discovery. Of the workers only number 0, the chief, is registered: nobody asks the others anything."""

LOOPBACK = "127.0.0.1:0"

_POLL_SECONDS = 0.2

_COMMON = ("num_ps", "num_workers", "seed", "enable_fused_layout", "params_override")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class JobPlace(Closing):
    """What a process needs to know to take part in a job."""

    discovery: ServiceDiscovery

    secret: SharedSecret = field(repr=False)

    tls: TlsConfig | None = None

    wait_seconds: float = 7200.0
    """How long processes wait for each other."""

    listen_at: str = LOOPBACK
    """Where this process listens."""

    @classmethod
    def in_folder(
        cls,
        model_dir: str | Path,
        *,
        discovery: ServiceDiscovery | None = None,
        tls: TlsConfig | None = None,
        wait_seconds: float = 7200.0,
    ) -> "JobPlace":
        """Return the place of the job that trains in a folder, which all of its processes see."""
        folder = Path(model_dir) / CLUSTER_FOLDER
        found = discovery or FilesServiceDiscovery(folder)
        return cls(
            discovery=found,
            secret=SharedSecret.made_in_folder(folder),
            tls=tls,
            wait_seconds=wait_seconds,
            # Some discoveries say where this process is to listen.
            listen_at=str(getattr(found, "addr", None) or LOOPBACK),
        )

    def servers(self, num_ps: int) -> list[str]:
        """Wait until `num_ps` parameter servers are registered; return their addresses in order."""
        missing = num_ps - len(self.discovery.query(PS))
        if missing > 0:
            _log.warning(
                "waiting for %d of %d parameter servers, up to %g s; start each with server_type=ps and its index, or "
                "all processes of a job with `monolith launch`",
                missing,
                num_ps,
                self.wait_seconds,
            )
        found = wait_for(self.discovery, PS, num_ps, timeout_seconds=self.wait_seconds)
        return [found[index] for index in sorted(found)]

    def chief(self) -> str:
        """Wait until the chief is registered; return its address."""
        end = time.monotonic() + self.wait_seconds
        while (address := self.discovery.query(WORKER).get(0)) is None:
            if time.monotonic() > end:
                raise TimeoutError(f"waited {self.wait_seconds:g} seconds for the chief (worker 0); start it")
            time.sleep(_POLL_SECONDS)
        return address

    def close(self) -> None:
        """Take back what this process registered."""
        self.discovery.close()


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
