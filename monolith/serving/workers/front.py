"""A front: answers over HTTP, and has everything but the rows; those are in the table process."""

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from socket import socket
from typing import cast

from monolith.closing import Closing
from monolith.delta import TakenPart
from monolith.embedding import MultiTable, TableConfig
from monolith.errors import CorruptFrameError, RemoteError
from monolith.export.description import Description
from monolith.export.load import load_export
from monolith.export.serving_model import ServingModel
from monolith.parallel.replicas.replicated_tables import ReadConfig, ReplicatedTables
from monolith.serving.metrics import Progress
from monolith.serving.models.served_model import FoundVersion, ModelConfig, ServedModel
from monolith.serving.models.warm_up import warm_up
from monolith.serving.workers.place import WorkersFolder
from monolith.serving.workers.table_state import STATE, TableState
from monolith.wire import Client, Message, SharedSecret

TAKES_NOTHING = TakenPart(None, dense=False)

_ANSWER_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Front:
    """What makes this process a front."""

    folder: WorkersFolder
    name: str
    socket_number: int
    """The listening socket, inherited."""

    def socket(self) -> socket:
        """Return the socket of the whole server."""
        return socket(fileno=self.socket_number)

    def model(
        self, number: int, config: ModelConfig, *, num_threads: int, max_batch: int | None = None
    ) -> "MirroredModel":
        """Return a model as the table process serves it; requests have at most `max_batch` examples."""
        address, secret = self.folder.table_address(number), self.folder.secret
        return MirroredModel(config, address, secret, num_threads=num_threads, max_batch=max_batch)


class MirroredModel(ServedModel, Closing):
    """A model whose version, rows and dense weights are those of the table process at every moment."""

    def __init__(
        self,
        config: ModelConfig,
        address: str,
        secret: SharedSecret,
        *,
        num_threads: int,
        max_batch: int | None = None,
    ) -> None:
        """Load what the table process serves.

        Raises:
            OSError: it does not answer.
        """
        self._address, self._secret = address, secret
        self._client = Client(address, secret=secret)
        self._state = self._ask(None)
        self._stop = threading.Event()
        # The table process has the pinned version, and takes the deltas.
        super().__init__(
            replace(config, name=self._state.name, version=None, sync_address=None),
            load=partial(self._load_version, num_threads=num_threads),
            prepare=partial(warm_up, max_batch=max_batch),
        )
        self._thread = threading.Thread(target=self._follow_tables, name=f"follow {self.name}", daemon=True)
        self._thread.start()

    @property
    def progress(self) -> Progress:
        """How much of training the table process serves."""
        return self._state.progress

    @property
    def num_damaged(self) -> int:
        """Number of damaged versions that the table process passed over."""
        return self._state.num_damaged

    @property
    def table_figures(self) -> Mapping[str, tuple[int, int]]:
        """Rows and bytes of each table."""
        return self._state.tables

    def close(self) -> None:
        """Follow no more."""
        self._stop.set()
        self._client.close()

    def _found(self) -> Sequence[FoundVersion]:
        """Return the version that the table process serves, and no other."""
        return [one for one in super()._found() if one.version == self._state.version]

    def _load_version(self, path: Path, *, num_threads: int) -> ServingModel:
        model = load_export(path, num_threads=num_threads, rows=self._rows)
        model.swap_dense(self._state.dense)
        return model

    def _rows(self, description: Description, configs: Mapping[str, TableConfig]) -> MultiTable:
        tables = ReplicatedTables(
            configs,
            1,
            lambda shard: [self._address],
            plan_hash=description.plan_hash,
            version=description.version,
            secret=self._secret,
            config=ReadConfig(deadline_seconds=1.0, default_rows=False),
        )
        tables.require_replicas()
        return cast(MultiTable, tables)

    def _follow_tables(self) -> None:
        trouble = ""
        while not self._stop.is_set():
            try:
                self._take_over(self._ask(self._state))
                trouble = ""
            except Exception as error:  # noqa: BLE001  logged once, and tried again: what answers now goes on
                if trouble != str(error) and not self._stop.is_set():
                    trouble = str(error)
                    _log.warning("model %r: the table process cannot be followed: %s", self.name, error)
                self._stop.wait(_PAUSE_SECONDS)

    def _take_over(self, state: TableState) -> None:
        before, dense = self._state, state.dense
        if not dense:
            state = replace(state, dense=before.dense)
        self._state = state
        if state.version != self.current.version:
            self.refresh()
        elif dense:
            self.current.swap_dense(dense)

    def _ask(self, known: TableState | None) -> TableState:
        meta = {} if known is None else {"known": [known.version, known.dense_token]}
        reply = self._client.request(Message(type=STATE, meta=meta), _ANSWER_SECONDS)
        try:
            return TableState.of(reply)
        except (KeyError, TypeError, ValueError) as error:
            raise RemoteError(f"{self._address} is no table process: {error}") from error
        except CorruptFrameError as error:
            raise RemoteError(str(error)) from error
