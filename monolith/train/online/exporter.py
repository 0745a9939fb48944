"""Exporter: versions of a model in training, written while it trains."""

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from monolith._core import native
from monolith.export.dense_graph import dense_weights
from monolith.export.versions import complete_versions, next_version, remove_unfinished, unfinished_path, version_path
from monolith.export.write import trace_model, write_export
from monolith.train.online.step_gate import StepGate
from monolith.train.state import TrainState

_log = logging.getLogger(__name__)


class Exporter:
    """Writes a version when told to and, as a context, every so many seconds from a thread of its own."""

    def __init__(
        self,
        state: TrainState,
        base: str | Path,
        *,
        name: str,
        gate: StepGate,
        every_seconds: float,
        keep: int,
        skip_zero_embedding: bool = False,
    ) -> None:
        """Trace the model, which takes seconds and must happen before the state is opened: tracing may draw numbers."""
        self._state = state
        self._base = Path(base)
        self._name = name
        self._gate = gate
        self._every_seconds = every_seconds
        self._keep = keep
        self._skip_zero_embedding = skip_zero_embedding
        self._graph = trace_model(state.model, state.plan, state.source.schema)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="export", daemon=True)
        self._sequence: Callable[[], int] = lambda: 0
        remove_unfinished(self._base)

    def number_by(self, sequence: Callable[[], int]) -> None:
        """Take the sequence that versions bear from here."""
        self._sequence = sequence

    def write(self) -> Path:
        """Write a version of this moment and remove those that are too many."""
        state = self._state
        sequence = self._sequence()  # before anything is read: what it counts is in the rows and weights
        with self._gate.between_steps():
            weights = dense_weights(state.model)
        path = write_export(
            self._base,
            next_version(self._base),
            model=state.model,
            plan=state.plan,
            tables=state.tables,
            schema=state.source.schema,
            generation=state.generation,
            sequence=sequence,
            name=self._name,
            graph=self._graph,
            weights=weights,
            skip_zero_embedding=self._skip_zero_embedding,
        )
        for version in complete_versions(self._base)[: -self._keep]:
            # Renamed first: a version that is half gone must not look like one.
            leftover = version_path(self._base, version).rename(unfinished_path(self._base, version))
            shutil.rmtree(leftover)
        return path

    def __enter__(self) -> Self:
        """Start writing every so many seconds."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; a version that is being written is finished."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        native.work_alone()
        while not self._stop.wait(self._every_seconds):
            try:
                self.write()
            except Exception:  # noqa: BLE001  training goes on; the next version may work
                _log.exception("the export to %s failed", self._base)
