"""ControllerClient: the side that asks a run."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from monolith.closing import Closing
from monolith.errors import RemoteError
from monolith.train.controller.requests import OK, Request, ServerAddress
from monolith.wire import Client, Message

REQUEST_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingStatus:
    """How far a run is."""

    global_step: int
    """Steps taken, in all runs together."""

    saved_step: int | None
    """Steps of the newest snapshot."""

    stopped: bool
    """Somebody stopped training."""

    blocked: bool
    """The run waits now; a run inside a step, or one that waits for events, does not yet."""


class ControllerClient(Closing):
    """Asks the run of a `model_dir` that was started with `enable_controller`; see `ServerHook`.

    FileNotFoundError if no run listens, ConnectionError if it is gone.
    """

    def __init__(self, model_dir: str | os.PathLike[str]) -> None:
        """Find the run; nothing is connected yet."""
        found = ServerAddress.read(model_dir)
        self._model_dir = os.fspath(model_dir)
        self._client = Client(found.address, secret=found.secret)

    def stop_training(self) -> None:
        """Hold the run up before its next step; RemoteError if somebody did so already."""
        self._ask(Request.STOP_TRAINING)

    def resume_training(self) -> None:
        """Let the run go on; nothing happens if it goes."""
        self._ask(Request.RESUME_TRAINING)

    def get_block_status(self) -> tuple[list[int], list[int]]:
        """Return the indices of workers that wait, and of workers that do not wait yet."""
        meta = self._ask(Request.GET_BLOCK_STATUS)
        return list(meta["blocked_indices"]), list(meta["unblocked_indices"])

    def save_checkpoint(self, timeout_seconds: float = 60.0) -> int | None:
        """Let the run write a snapshot and return its step.

        None if that took longer: a run that waits for events writes it after the next ones.
        """
        meta = self._ask(Request.SAVE_CHECKPOINT, timeout_seconds)
        return None if meta["pending"] else int(meta["saved_step"])

    def get_training_status(self) -> TrainingStatus:
        """Return how far the run is."""
        meta = self._ask(Request.GET_TRAINING_STATUS)
        return TrainingStatus(**{name: meta[name] for name in TrainingStatus.__dataclass_fields__})

    def forget(
        self, ids: Mapping[str, Collection[int]], timeout_seconds: float = 600.0
    ) -> dict[str, dict[str, list[int]]]:
        """Let the run remove rows and counts of ids, by table; return the ids that had "rows", and "counts".

        It waits for saves under way. What the run saves later knows nothing of the ids.
        """
        asked = {table: sorted(these) for table, these in ids.items()}
        meta = self._ask(Request.FORGET, timeout_seconds, ids=asked)
        return {what: meta[what] for what in ("rows", "counts")}

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _ask(self, request: Request, timeout_seconds: float = REQUEST_SECONDS, **meta: Any) -> dict[str, Any]:
        try:
            reply = self._client.request(Message(type=int(request), meta=meta), timeout_seconds)
        except ConnectionError as error:
            raise ConnectionError(
                f"the run in {self._model_dir} does not answer; it may have ended ({error})"
            ) from error
        if reply.meta["status"] != OK:
            raise RemoteError(f"{reply.meta['status']}: {reply.meta.get('message', '')}")
        return dict(reply.meta)
