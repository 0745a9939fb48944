"""AlertHook: says again and again that something is wrong with a run, as long as it is."""

import logging
import threading
from collections.abc import Callable

from monolith.hooks import Hook, RunContext
from monolith.observe.metric_client import MetricClient, get_cli, tag_text
from monolith.train.health.alert_config import AlertConfig

NOBODY = "nobody"
"""The label of a counter must have a value."""

_log = logging.getLogger(__name__)


class AlertHook(Hook):
    """Looks at an interval, also while the run waits for events; logs and counts an alert whenever it finds a problem.

    The counter is `alerts`, with the labels `kind` and `user`. What watches counters and logs brings it to people.
    """

    def __init__(
        self,
        config: AlertConfig,
        kind: str,
        find: Callable[[RunContext], str | None],
        *,
        client: MetricClient | None = None,
    ) -> None:
        """Take the kind of alert, and what returns the problem in words, or None."""
        self._config, self._kind, self._find = config, kind, find
        self._client = client or get_cli(config.prefix)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def after_create_session(self, context: RunContext) -> None:
        """Begin to look."""
        self._over.clear()
        self._thread = threading.Thread(target=self._watch, args=[context], name=f"{self._kind} alert", daemon=True)
        self._thread.start()

    def end(self, context: RunContext) -> None:
        """Stop."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def check(self, context: RunContext) -> None:
        """Look now."""
        problem = self._find(context)
        if problem is None:
            return
        users = self._config.users or (NOBODY,)
        _log.warning("alert (%s) for %s: %s", self._kind, ", ".join(users), problem)
        for user in users:
            self._client.emit_counter("alerts", 1, tag_text(kind=self._kind, user=user))

    def _watch(self, context: RunContext) -> None:
        self._over.wait(self._config.start_delay_seconds)
        while not self._over.is_set():
            try:
                self.check(context)
            except Exception:  # noqa: BLE001  logged
                # An alert that cannot be told now must not be the last one.
                _log.exception("the %s alert could not look, or tell", self._kind)
            self._over.wait(self._config.check_interval_seconds)


class StandsStill:
    """Finds a run that has taken no step since it was looked at last, though it could have.

    In a pause, and once this process's part is done, no step is expected.

    >>> find, context = StandsStill(), RunContext(model=None, tables=None, global_step=7)
    >>> find(context), find(context)
    (None, 'no step was taken since the last check; the run is at step 7')
    >>> context.global_step = 8
    >>> find(context) is None
    True
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._step: int | None = None

    def __call__(self, context: RunContext) -> str | None:
        """Return the problem in words; None if there is none, or if this is the first look."""
        if context.pause is not None and context.pause.rests:
            self._step = None
            return None
        before, self._step = self._step, context.global_step
        if before != self._step:
            return None
        return f"no step was taken since the last check; the run is at step {self._step}"
