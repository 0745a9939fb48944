"""Exporter: versions of a model in training, written while it trains."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from monolith._core import native
from monolith.checkpoint.format.state_files import exempt_steps
from monolith.export.dense_graph import dense_weights
from monolith.export.kept.retention import keep_newest, remove_unnamed_parts
from monolith.export.versions import complete_versions, newest_export, next_version, remove_unfinished
from monolith.export.warm_up.request_file import read_requests
from monolith.export.write import Export, RowsOfVersion, trace_model, write_export
from monolith.model.serving_inputs import requests_schema
from monolith.parallel.live.exported_shards import ExportedShards
from monolith.train.live.live_config import DISTRIBUTED, LiveConfig
from monolith.train.live.step_gate import StepGate
from monolith.train.saving.save_listener import SaveListener
from monolith.train.state import TrainState

_log = logging.getLogger(__name__)


class ExportListener(SaveListener):
    """Writes a version for servers after every successful save, also of dense weights alone."""

    def __init__(self, state: TrainState, config: LiveConfig) -> None:
        """Trace the model, which takes seconds."""
        self._config = config
        # Saves end between the updates of two steps, in the thread that trains, so this gate never has to wait.
        self._exporter = Exporter(state, config, gate=StepGate(), sequence=lambda: 0)

    def after_save(self, step: int) -> None:
        """Write a version of this moment."""
        self._exporter.write()

    def after_dense_save(self, step: int) -> None:
        """Write a version that shares the rows of the newest one; a version of one folder cannot."""
        if self._config.mode == DISTRIBUTED and complete_versions(self._config.export_base):
            self._exporter.write(dense_only=True)


class Exporter:
    """Writes a version when asked and, between `start` and `stop`, at a fixed interval from a thread of its own."""

    def __init__(self, state: TrainState, config: LiveConfig, *, gate: StepGate, sequence: Callable[[], int]) -> None:
        """Trace the model, which takes seconds; a version gets the `sequence` from just before it is written."""
        self._state = state
        self._config = config
        self._gate = gate
        self._sequence = sequence
        self._tables = ExportedShards(state.shards, generation=state.generation) if state.shards else state.tables
        self._warm_up = read_requests(config.warm_up_file)
        self._schema = requests_schema(state.model.serving_input_receiver_fn, lambda: state.source.schema)
        self._graph = trace_model(state.model, state.plan, self._schema)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="export", daemon=True)
        remove_unfinished(config.export_base)
        remove_unnamed_parts(config.export_base)

    def write(self, *, dense_only: bool = False) -> Path:
        """Write a version of this moment and remove the oldest beyond `keep_exports`; those of exempt snapshots stay.

        With `dense_only`, it shares the rows of the newest version.
        """
        state, config = self._state, self._config
        sequence = self._sequence()  # before anything is read: what it counts is in the rows and weights
        with self._gate.between_steps(), state.dense_held():
            weights, step = dense_weights(state.model), state.global_step
        path = write_export(
            config.export_base,
            next_version(config.export_base),
            Export(
                model=state.model,
                plan=state.plan,
                tables=RowsOfVersion(newest_export(config.export_base)) if dense_only else self._tables,
                num_shards=config.shards_of(len(state.shards)),
                schema=self._schema,
                generation=state.generation,
                sequence=sequence,
                global_step=step,
                name=config.name,
                graph=self._graph,
                weights=weights,
                warm_up=self._warm_up,
                skip_zero_embedding=config.skip_zero_embedding,
            ),
        )
        exempt = () if config.model_dir is None else exempt_steps(config.model_dir)
        keep_newest(config.export_base, config.keep_exports, keep_steps=exempt)
        return path

    def start(self) -> None:
        """Write versions from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; a version that is being written is finished."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        native.work_alone()
        while not self._stop.wait(self._config.export_seconds):
            try:
                self.write()
            except Exception:  # noqa: BLE001  training goes on; the next version may work
                _log.exception("the export to %s failed", self._config.export_base)
