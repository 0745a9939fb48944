"""QueryActionHook: a file in the model's folder that asks for a snapshot or the end."""

import logging
import os
import re
import threading
from pathlib import Path
from typing import Final

from monolith.hooks import Hook, RunContext

ACTION_FILE: Final = "monolith_action"
RESPONSE_FILE: Final = "monolith_action_response"
QUERY_SECONDS = 60.0

_ACTION = re.compile(r"\s*action\s*:\s*(\w+)\s*")
_log = logging.getLogger(__name__)


class QueryActionHook(Hook):
    """Looks for `<model_dir>/monolith_action` now and then and does what it says.

    The file reads ``action: TRIGGER_SAVE`` (a snapshot after the present step) or ``action: STOP`` (the end of the
    run, with a snapshot). It is removed, and `monolith_action_response` holds "OK" or the error.
    A run that waits for events does what was asked after the next ones.
    """

    def __init__(self, model_dir: str | os.PathLike[str], every_seconds: float = QUERY_SECONDS) -> None:
        """Take the folder and how often to look."""
        self._model_dir = Path(model_dir)
        self._every_seconds = every_seconds
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def after_create_session(self, context: RunContext) -> None:
        """Begin to look, in a thread of its own: a run that waits for events answers too."""
        self._over.clear()
        self._thread = threading.Thread(target=self._run, args=(context,), name="query action", daemon=True)
        self._thread.start()

    def end(self, context: RunContext) -> None:
        """Stop looking."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def query(self, context: RunContext) -> str | None:
        """Do what the file says and return the answer; None if there is no file."""
        path = self._model_dir / ACTION_FILE
        try:
            text = path.read_text(errors="replace")
        except FileNotFoundError:
            return None
        path.unlink(missing_ok=True)
        answer = _obey(text, context)
        response = self._model_dir / RESPONSE_FILE
        temporary = response.with_name(f"{RESPONSE_FILE}.tmp")
        temporary.write_text(answer)
        temporary.replace(response)
        return answer

    def _run(self, context: RunContext) -> None:
        while not self._over.wait(self._every_seconds):
            try:
                self.query(context)
            except OSError as error:
                _log.warning("%s could not be answered: %s", self._model_dir / ACTION_FILE, error)


def _obey(text: str, context: RunContext) -> str:
    match = _ACTION.fullmatch(text)
    if match is None:
        return f'This is no action, which looks like "action: TRIGGER_SAVE": {text[:200]!r}'
    if match[1] == "TRIGGER_SAVE":
        context.request_save()
    elif match[1] == "STOP":
        context.request_stop()
    else:
        return f"Unknown action: {match[1]}; the actions are TRIGGER_SAVE and STOP"
    return "OK"
