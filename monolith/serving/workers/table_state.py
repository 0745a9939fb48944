"""What a table process says of a model to its fronts: the version, how fresh it is, and its dense weights."""

import json
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from monolith.export.signature import Array
from monolith.serving.metrics import Progress
from monolith.serving.models.served_model import ServedModel
from monolith.wire import Message

STATE: Final = 96
"""Type of the message that asks for the state."""

_WAIT_SECONDS = 1.0
_LOOK_SECONDS = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class TableState:
    """The state of a model in the process that has its rows."""

    name: str
    version: int
    progress: Progress
    num_damaged: int
    tables: Mapping[str, tuple[int, int]]
    """Rows and bytes of each table."""

    dense_token: str
    """Another one after each change of the dense weights."""

    dense: Mapping[str, Array]
    """The dense weights; none if the front has them."""

    @classmethod
    def of(cls, message: Message) -> Self:
        """Return what a reply says; a reply of another process is a KeyError or TypeError."""
        said = json.loads(message.meta["state"])
        return cls(
            name=said["name"],
            version=said["version"],
            progress=Progress(*said["progress"]),
            num_damaged=said["num_damaged"],
            tables={name: (rows, size) for name, (rows, size) in said["tables"].items()},
            dense_token=said["dense_token"],
            dense=dict(message.arrays),
        )


class StateOfModel:
    """Answers fronts; one that knows the newest state waits for the next, up to a second."""

    def __init__(self, model: ServedModel) -> None:
        """Watch a model."""
        self._model = model
        self._lock = threading.Lock()
        self._dense: Mapping[str, Array] | None = None
        self._number = 0

    def answer(self, message: Message) -> Message:
        """Return the state, as soon as it is another than the one that the message names."""
        known = message.meta.get("known")
        give_up = time.monotonic() + _WAIT_SECONDS
        while True:
            version, token, dense = self._now()
            if known != [version, token] or time.monotonic() >= give_up:
                break
            time.sleep(_LOOK_SECONDS)
        is_new = not isinstance(known, list) or known[1:] != [token]
        meta = {"state": json.dumps(self._described(version, token))}
        return Message(type=message.type, meta=meta, arrays=dict(dense) if is_new else {})

    def _now(self) -> tuple[int, str, Mapping[str, Array]]:
        with self._lock:
            model = self._model.current
            dense = model.dense_weights
            if dense is not self._dense:
                # Each swap makes another object of them.
                self._dense, self._number = dense, self._number + 1
            return model.version, f"{os.getpid()}-{self._number}", dense

    def _described(self, version: int, token: str) -> dict[str, Any]:
        now = self._model.progress
        assert now is not None  # it is never unloaded: clients cannot control a server of several processes
        return {
            "name": self._model.name,
            "version": version,
            "progress": [now.generation, now.sequence, now.as_of, now.num_missing],
            "num_damaged": self._model.num_damaged,
            "tables": {
                name: [len(table), table.memory().bytes_total]
                for name, table in self._model.current.tables.tables.items()
            },
            "dense_token": token,
        }
