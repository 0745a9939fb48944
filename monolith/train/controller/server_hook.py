"""ServerHook: lets others pause a run, save it, and ask how far it is."""

import logging
import os
import time
from pathlib import Path
from typing import Any

from monolith.hooks import Hook, RunContext
from monolith.train.controller.requests import ALREADY_EXISTS, OK, Request, ServerAddress
from monolith.wire import Message, Server, SharedSecret, listen

POLL_SECONDS = 0.1
"""How soon a paused run notices a signal, and a waiting request a snapshot."""

MAX_SAVE_SECONDS = 600.0
"""How long a request waits for its snapshot, if it names no time."""

_log = logging.getLogger(__name__)


class ServerHook(Hook):
    """Listens on 127.0.0.1 while a run goes; `<model_dir>/controller_server_addr.txt` says where.

    Stopping holds the run up before its next step, all of its workers, until it is resumed or asked to end. It goes
    first among hooks, so that others, such as those that keep readers out during a step, are not held up half-way.
    Where nothing is trained, it does nothing: a run that trains in the same folder keeps its address.
    """

    def __init__(self, model_dir: str | os.PathLike[str]) -> None:
        """Take the folder of the address file."""
        self._model_dir = Path(model_dir)
        self._file: Path | None = None
        self._server: Server | None = None

    def after_create_session(self, context: RunContext) -> None:
        """Begin to listen."""
        if context.pause is None:
            _log.warning("ServerHook does nothing here: only a run that trains can be paused and saved")
            return
        secret = SharedSecret.new(f"the run in {self._model_dir}")
        self._server = listen("127.0.0.1:0", lambda message: self._answer(message, context), secret=secret)
        self._file = ServerAddress(str(self._server.address), secret).write(self._model_dir)

    def before_run(self, context: RunContext) -> None:
        """Wait while training is paused; write the snapshots that clients request during that time."""
        while context.pause is not None and context.pause.holds(is_ending=context.stop_requested):
            context.check()
            with context.turn():
                is_over = context.pause.stand_still()
            if is_over:
                context.request_stop()
            if context.save_requested and context.save is not None:
                context.save()
            context.pause.wait(POLL_SECONDS)

    def end(self, context: RunContext) -> None:
        """Stop listening and remove the file."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)
            self._file = None
        server, self._server = self._server, None  # first: requests that wait for a snapshot are told so
        if server is not None:
            server.close()

    def _answer(self, message: Message, context: RunContext) -> Message:
        answers = {
            Request.STOP_TRAINING: self._stop,
            Request.RESUME_TRAINING: self._resume,
            Request.GET_BLOCK_STATUS: self._block_status,
            Request.SAVE_CHECKPOINT: self._save,
            Request.GET_TRAINING_STATUS: self._training_status,
            Request.FORGET: self._forget,
        }
        meta = answers[Request(message.type)](context, message)
        return Message(type=message.type, meta={"status": OK, **meta})

    def _stop(self, context: RunContext, message: Message) -> dict[str, Any]:
        if not context.pause.place():
            return {"status": ALREADY_EXISTS, "message": "Barrier is placed already."}
        return {}

    def _resume(self, context: RunContext, message: Message) -> dict[str, Any]:
        context.pause.lift()
        return {}

    def _block_status(self, context: RunContext, message: Message) -> dict[str, Any]:
        blocked, unblocked = context.pause.workers()
        return {"blocked_indices": blocked, "unblocked_indices": unblocked}

    def _save(self, context: RunContext, message: Message) -> dict[str, Any]:
        """Ask for a snapshot and wait for it; one of the present step will do, if the chief knows that step."""
        if context.pause.step_of_others is None and context.saved_step == context.global_step:
            return {"saved_step": context.saved_step, "pending": False}
        number = context.request_save()
        left = message.deadline.remaining_seconds()
        # A little less than the client waits, so that it hears the answer.
        deadline = time.monotonic() + (MAX_SAVE_SECONDS if left is None else 0.9 * left)
        while context.save_answered < number:
            if time.monotonic() >= deadline or self._server is None:
                return {"saved_step": context.saved_step, "pending": True}
            time.sleep(POLL_SECONDS / 10)
        return {"saved_step": context.saved_step, "pending": False}

    def _forget(self, context: RunContext, message: Message) -> dict[str, Any]:
        if context.forget is None:
            raise ValueError("this run cannot forget ids")
        return dict(context.forget({table: set(ids) for table, ids in message.meta["ids"].items()}))

    def _training_status(self, context: RunContext, message: Message) -> dict[str, Any]:
        return {
            # A chief's own count knows the steps of others only after its next step, or when it saves.
            "global_step": max(context.global_step, context.saved_step or 0, context.pause.step_of_others or 0),
            "saved_step": context.saved_step,
            "stopped": context.pause.is_placed,
            "blocked": not context.pause.workers()[1],
        }
