"""An entry: a server whose rows are on the replicas of shards."""

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from monolith.closing import Closing
from monolith.cluster.discovery import discovery_from
from monolith.export.load import load_export
from monolith.export.sharded.entry import ENTRY, replicas_of, rows_on_replicas
from monolith.parallel.replicas.replicated_tables import ReadConfig, ShardAwayError
from monolith.serving.models.served_model import Load, ModelConfig
from monolith.serving.shards.registration import registered
from monolith.wire import SharedSecret, TlsConfig

_POLL_SECONDS = 0.2

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryConfig:
    """How an entry reads rows."""

    deadline_seconds: float = 1.0
    """How long the replicas of all shards together may take to answer for one batch of requests."""

    hedge_seconds: float | None = None
    """After how long another replica is asked too; 0: never. None: twice what answers usually take."""

    require_rows: bool = False
    """Answer 503 if a shard is away, instead of with zeros for its rows."""

    index: int = 0
    """The number of this entry among all, where it registers for dense weights."""


DEFAULT_ENTRY: Final = EntryConfig()


class RowsOfModel(Closing):
    """Where the rows of one model are: in this process, or on shards that a discovery finds."""

    def __init__(self, model: ModelConfig, config: EntryConfig, *, tls: TlsConfig | None) -> None:
        """Connect to the discovery, if the model has its rows elsewhere."""
        self._base, self._config, self._tls = Path(model.base), config, tls
        self._is_live = model.sync_address is not None
        self._discovery = None if model.shards is None else discovery_from(model.shards)

    def load(self, *, num_threads: int) -> Load:
        """Return what loads a version of the model."""
        load = partial(load_export, num_threads=num_threads)
        if self._discovery is None:
            return load
        config = ReadConfig(
            deadline_seconds=self._config.deadline_seconds,
            hedge_seconds=self._config.hedge_seconds,
            default_rows=not self._config.require_rows,
        )
        secret = None if self._tls is not None else SharedSecret.of_folder(self._base)
        find = replicas_of(self._discovery)
        rows = rows_on_replicas(find, secret=secret, tls=self._tls, config=config, is_live=self._is_live)
        return partial(load, rows=rows)

    def when_there(self, load: Callable[[], _T], stop: threading.Event | None) -> _T | None:
        """Return what `load` returns when every shard has a replica; None if `stop` is set before.

        Raises:
            ShardAwayError: a shard has none, and there is no `stop`.
        """
        said = ""
        while True:
            try:
                return load()
            except ShardAwayError as error:
                if stop is None:
                    raise ShardAwayError(
                        f"{error}; start `monolith serve-shard {self._base} --shard ...`, or wait for it with --wait"
                    ) from error
                if str(error) != said:
                    said = str(error)
                    _log.warning("waiting: %s", said)
            if stop.wait(_POLL_SECONDS):
                return None

    def registered(self, sync_address: str | None) -> AbstractContextManager[None]:
        """Let trainers find where this entry takes dense weights, while the block runs."""
        if self._discovery is None or sync_address is None:
            return nullcontext()
        return registered(self._discovery, ENTRY, self._config.index, sync_address)

    def close(self) -> None:
        """Leave the discovery."""
        if self._discovery is not None:
            self._discovery.close()
