"""ServerHealthHook: notices parameter servers that are not well, also while training goes on."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from monolith.hooks import Hook, RunContext

CHECK_SECONDS = 30.0
"""The original asks as often."""

_WELL = "OK"
_SILENT = "SILENT"

_log = logging.getLogger(__name__)


class ServerHealthHook(Hook):
    """Asks all parameter servers how they are, at an interval; logs a warning when one is not well, or is again.

    Between two warnings of a server its state has changed. A run that begins again goes on with the same hook, so it
    repeats none.
    """

    def __init__(self, ask: Callable[[], Sequence[Mapping[str, Any]]], every_seconds: float = CHECK_SECONDS) -> None:
        """Take what returns the answers of all servers, as `with_servers` does."""
        self._ask, self._every_seconds = ask, every_seconds
        self._known: dict[int, str] = {}
        self._problems: dict[int, str] = {}
        self._over = threading.Event()

    @property
    def problems(self) -> str | None:
        """Servers that were not well when they were asked last, in words; None if all were."""
        return "; ".join(words for _, words in sorted(self._problems.items())) or None

    def after_create_session(self, context: RunContext) -> None:
        """Begin to ask."""
        # A question of the run before may still be under way; its answer counts no more.
        self._over = threading.Event()
        threading.Thread(target=self._watch, args=[self._over], name="parameter-server-health", daemon=True).start()

    def end(self, context: RunContext) -> None:
        """Stop. A question under way ends by itself: its server may be silent."""
        self._over.set()

    def _watch(self, over: threading.Event) -> None:
        while not over.is_set():
            try:
                servers = self._ask()
                if not over.is_set():  # servers that end with the run are not lost
                    self.note(servers)
            except Exception:  # noqa: BLE001  logged
                # Training does not need the answer, and the next question may get one.
                _log.exception("the parameter servers could not be asked how they are")
            over.wait(self._every_seconds)

    def note(self, servers: Sequence[Mapping[str, Any]]) -> None:
        """Take the answers of all servers; log what has changed."""
        for index, server in enumerate(servers):
            self._note(index, server)

    def _note(self, index: int, server: Mapping[str, Any]) -> None:
        health, name = server.get("health"), f"parameter server {index} ({server['address']})"
        if str(server["state"]).startswith("lost"):
            status, words = _SILENT, f"{name} does not answer ({server['state']})"
        elif not health or health["status"] == _WELL:  # one of an earlier version says nothing of its health
            status, words = _WELL, f"{name} is well again"
        else:
            status, words = str(health["status"]), f"{name} is not well: {health['message']}"
        if status == _WELL:
            self._problems.pop(index, None)
        else:
            self._problems[index] = words
        before, self._known[index] = self._known.get(index, _WELL), status
        if before != status:
            _log.warning("%s", words if status in (_WELL, _SILENT) else f"{words}. {_WAY_OUT}")


_WAY_OUT = (
    "Give the job more parameter servers with `monolith scale`, let rows expire sooner, or raise "
    "monolith_default_machine_info_mem_limit"
)
