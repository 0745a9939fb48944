"""LiveConfig: where a run sends what it learns, and how often."""

from dataclasses import dataclass
from pathlib import Path

from monolith.cluster.discovery.parse import KINDS
from monolith.embedding.hash_shards import MAX_SHARDS
from monolith.export.warm_up.request_file import DEFAULT_WARM_UP_FILE
from monolith.wire import TlsConfig

DEFAULT_SYNC_SECONDS = 0.5
REALTIME_SYNC_SECONDS = 10.0
"""The specification's period; it applies if `enable_realtime_training` is set and no period is."""

EXPORT_FOLDER = "exported_models"

PAUSE_FILE = "sync.paused"
"""In the export folder: while it exists, nothing is sent to servers, and changes wait."""

STANDALONE, DISTRIBUTED = EXPORT_MODES = ("standalone", "distributed")


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveConfig:
    """Where a run sends what it learns, and how often."""

    export_base: Path
    """Folder of the versions to serve."""

    name: str
    """What requests call the model."""

    sync_targets: tuple[str, ...] = ()
    """Where servers take deltas ("127.0.0.1:7001", "unix:/path"), or a discovery that finds them ("files:DIR")."""

    sync_seconds: float = DEFAULT_SYNC_SECONDS
    """What changed goes to the servers this often."""

    export_seconds: float = 60.0
    """A version is exported this often, besides the one at the start."""

    keep_exports: int = 3
    """Versions to keep, besides those of snapshots that are exempt from deletion."""

    model_dir: Path | None = None
    """Folder of the snapshots; None knows of none that are exempt."""

    mode: str = STANDALONE
    """Whether a version is one folder ("standalone"), or has the rows of each shard in another ("distributed")."""

    num_shards: int | None = None
    """Shards of a distributed version; by default one per parameter server, or 1."""

    skip_zero_embedding: bool = False
    """Serving tables leave out rows that are all zeros."""

    warm_up_file: str = DEFAULT_WARM_UP_FILE
    """Requests, one per line, that servers answer before a version takes traffic; made up if it is not there."""

    tls: TlsConfig | None = None
    """Certificates for the servers; without them both sides read the shared secret of the export folder."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.mode not in EXPORT_MODES:
            raise ValueError(f"export_mode must be one of {', '.join(EXPORT_MODES)}, got {self.mode!r}")
        if self.num_shards is not None and not 1 <= self.num_shards <= MAX_SHARDS:
            raise ValueError(f"export_num_shards must be 1 to {MAX_SHARDS}, got {self.num_shards}")
        if self.num_shards is not None and self.mode == STANDALONE:
            raise ValueError(f"export_num_shards={self.num_shards} needs export_mode={DISTRIBUTED!r}")
        for name in ("sync_seconds", "export_seconds", "keep_exports"):
            if not getattr(self, name) > 0:
                raise ValueError(f"LiveConfig: {name} must be positive, got {getattr(self, name)}")

    def shards_of(self, num_servers: int) -> int | None:
        """Return the number of shards of a version, given that of the parameter servers; None for one folder."""
        if self.mode == STANDALONE:
            return None
        return self.num_shards or num_servers or 1


def is_discovery(text: str) -> bool:
    """Return whether a target is a discovery to ask, not an address.

    >>> is_discovery("files:/models/found"), is_discovery("unix:/run/serve"), is_discovery("127.0.0.1:7001")
    (True, False, False)
    """
    return text.partition(":")[0] in KINDS


def split_targets(text: str) -> list[str]:
    """Return the targets in one line of text: addresses with commas between, or one discovery."""
    return [text] if is_discovery(text) else [one.strip() for one in text.split(",") if one.strip()]
