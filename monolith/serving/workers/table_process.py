"""The table process: holds the rows of all models, takes deltas, looks for versions; fronts read from it."""

import json
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from monolith.export.serving_model import ServingModel
from monolith.parallel.replicas.replica_server import ReplicaServer
from monolith.serving.models.models import Models
from monolith.serving.models.served_model import ModelConfig, ServedModel
from monolith.serving.models.warm_up import warm_up
from monolith.serving.ready import ReadyModel
from monolith.serving.workers.place import WorkersFolder
from monolith.serving.workers.table_state import STATE, StateOfModel
from monolith.wire import Message

_RELEASE_SECONDS = 1.0


class TableModel:
    """One model in the table process: its versions, and the socket at which fronts read its rows."""

    def __init__(self, number: int, config: ModelConfig, folder: WorkersFolder, cleanup: ExitStack) -> None:
        """Load the model and listen."""
        self._state: StateOfModel | None = None
        address = folder.table_address(number)
        # Left by a table process that was killed.
        Path(address.removeprefix("unix:")).unlink(missing_ok=True)
        self.server = cleanup.enter_context(
            ReplicaServer(address, secret=folder.secret, handlers={STATE: self._answer})
        )
        self.served = ServedModel(config, prepare=warm_up, on_switch=self._serve)
        self._state = StateOfModel(self.served)

    def _serve(self, model: ServingModel) -> None:
        self.server.serve(model.tables, shard=0, num_shards=1, plan_hash=model.plan_hash, version=model.version)

    def _answer(self, message: Message) -> Message:
        if self._state is None:
            raise ConnectionError("no version is loaded yet")
        return self._state.answer(message)


def run_tables(
    models: Sequence[TableModel],
    ready: Sequence[ReadyModel],
    folder: WorkersFolder,
    *,
    poll_seconds: float,
    stop: threading.Event,
) -> None:
    """Write the ready file, and serve until `stop` is set."""
    file = folder.ready_file("tables")
    unfinished = file.with_suffix(".tmp")
    unfinished.write_text(json.dumps([asdict(one) for one in ready]))
    unfinished.replace(file)
    with Models([one.served for one in models]).watched(poll_seconds):
        while not stop.wait(_RELEASE_SECONDS):
            for one in models:
                one.server.release()
