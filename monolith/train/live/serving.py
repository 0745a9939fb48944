"""LiveServing: keeps the servers of a run up to date."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from monolith.delta import DeltaLoop, DeltaSender, DeltaSettings
from monolith.export.dense_graph import dense_weights
from monolith.parallel.live.shards_sender import ShardsSender
from monolith.train.live.exporter import Exporter
from monolith.train.live.found_targets import FoundTargets, is_paused
from monolith.train.live.live_config import LiveConfig
from monolith.train.live.step_gate import StepGate
from monolith.train.state import TrainState
from monolith.wire import SharedSecret

_REQUEST_SECONDS = 10.0
_MAX_PAUSE_SECONDS = 2.0
_LAST_TRIES = 2
"""Pushes at the end of a run: a server that is busy may miss the first."""

_log = logging.getLogger(__name__)


class LiveServing:
    """Writes versions for servers, and sends the changes in between, from its own threads.

    As a context: the first version exists when the block starts. When the block ends without an error, all servers that
    can be reached have every change.
    """

    def __init__(
        self, state: TrainState, config: LiveConfig, *, find: Sequence[Callable[[], Sequence[str]]] = ()
    ) -> None:
        """Trace the model, which takes seconds, and follow the changes of a state that is open from now on.

        Each of `find` returns the addresses of further servers, whenever it is asked.
        """
        self.gate = StepGate()
        state.waiting = self.gate.outside
        self._state = state
        self._watermark = state.watermark()
        self._exporter = Exporter(state, config, gate=self.gate, sequence=self._begin_export)
        num_shards = config.shards_of(len(state.shards)) or 1
        self._targets = FoundTargets(config.sync_targets, num_shards=num_shards, others=find)
        # Before the first version is written: a server that loads it then gets every later change.
        self._sender = self._make_sender(config)
        self._loop = DeltaLoop(
            self._sender,
            config.sync_seconds,
            max_pause_seconds=_MAX_PAUSE_SECONDS,
            find_targets=self._targets if self._targets.fixed is None else None,
            is_paused=lambda: is_paused(config.export_base),
        )

    @property
    def sequence(self) -> int:
        """The number of the newest delta."""
        return self._sender.sequence

    def after_step(self, state: TrainState) -> None:
        """Note how far training is; a trainer that was replaced must not go on."""
        self._watermark = state.watermark()
        if self._sender.links and not self._loop.running:
            raise self._loop.last_error or RuntimeError("the pushes to the servers ended by themselves")

    def __enter__(self) -> Self:
        """Write the first version, then push and export in the background."""
        try:
            self._exporter.write()
        except BaseException:
            self._sender.close()
            self._targets.close()
            raise
        self._loop.start()
        self._exporter.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Stop, and push a last time unless the run failed."""
        try:
            self._exporter.stop()
            self._loop.stop()
            if error is None:
                self._watermark = self._state.watermark()  # others may have gone on since this process's last step
                self._push_last()
        finally:
            self._sender.close()
            self._targets.close()

    def _push_last(self) -> None:
        self._find_last()
        for _ in range(_LAST_TRIES):
            report = self._sender.push_each()
            if not report.failures:
                break  # a refusal is final: another trainer has taken over, or the server has another plan
        for target, error in {**report.failures, **report.refusals}.items():
            _log.warning("the last changes did not reach the server at %s: %s", target, error)

    def _find_last(self) -> None:
        """Find the servers that came since the loop looked last."""
        if self._targets.fixed is not None:
            return
        try:
            self._sender.retarget(self._targets())
        except Exception as error:  # noqa: BLE001  logged: servers that are known must not miss the last changes
            _log.warning("servers cannot be looked up, the last changes go to those known before: %s", error)
        if not self._sender.links:
            _log.warning("no server is registered that could take the last changes; the next export has them")

    def _make_sender(self, config: LiveConfig) -> DeltaSender | ShardsSender:
        state = self._state
        common: dict[str, Any] = {
            "plan_hash": state.plan.hash,
            "generation": state.generation,
            "targets": self._targets.fixed or (),
            "dense_weights": self._weights,
            "watermark": self._joint_watermark,
            "settings": DeltaSettings(
                request_timeout_seconds=_REQUEST_SECONDS,
                tls=config.tls,
                secret=None if config.tls is not None else SharedSecret.made_in_folder(config.export_base),
                skip_zero_embedding=config.skip_zero_embedding,
            ),
        }
        if state.shards:
            return ShardsSender(state.shards, secret_folder=config.export_base, **common)
        return DeltaSender(state.tables, **common)

    def _begin_export(self) -> int:
        # Without anybody to send to, changes need not be counted.
        has_targets = self._targets.fixed is None or self._targets.fixed
        return self._sender.begin_export() if has_targets else self._sender.sequence

    def _joint_watermark(self) -> Mapping[str, int]:
        own = self._watermark
        return {**own, "event_seq": own["event_seq"] + self._state.num_events_of_others()}

    def _weights(self) -> tuple[int, Mapping[str, Tensor]]:
        with self.gate.between_steps(), self._state.dense_held() as version:
            arrays = dense_weights(self._state.model)
        return version, {name: torch.from_numpy(array) for name, array in arrays.items()}
