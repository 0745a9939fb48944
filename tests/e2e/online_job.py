"""An online job of real processes: a generator's log, a trainer and a server that may be killed and started again."""

import json
import threading
from pathlib import Path

from monolith.checkpoint import latest_state
from monolith.data import EventLogWriter, MovieEvents, append_forever
from tests.e2e.live_job import PATIENCE_SECONDS, LiveJob, eventually

BATCH = 128
RATE_PER_SECOND = 1000
"""Low: a trainer that is killed soon after every start must not fall behind for good."""


class OnlineJob(LiveJob):
    """One folder with log, snapshots and exports, and the processes that work on it."""

    def __init__(self, folder: Path, world: MovieEvents, *, snapshot_seconds: float = 0.2) -> None:
        super().__init__(folder)
        self.world, self.log = world, folder / "log"
        self._stop = threading.Event()
        self._generator = threading.Thread(target=self._generate, daemon=True)
        configs = {
            "trainer": {
                "model": "tests.e2e.counting_model:CountingMovie",
                "log_path": str(self.log),
                "model_dir": str(self.model_dir),
                "export_base": str(self.exports),
                "name": "movie",
                "sync_targets": [self._sync_address],
                "batch_size": BATCH,
                "config": {
                    "save_checkpoints_secs": snapshot_seconds,
                    "sync_every_seconds": 0.05,
                    "export_every_seconds": 1.0,
                    "status_path": str(self._status),
                },
            },
            "server": {
                "export_base": str(self.exports),
                "port": 0,
                "sync_address": self._sync_address,
                "ready_path": str(self._ready),
            },
        }
        for role, config in configs.items():
            (folder / f"{role}.json").write_text(json.dumps(config))
        EventLogWriter(self.log, world.schema).close()

    def start_generator(self) -> None:
        self._generator.start()

    def stop_generator(self) -> None:
        self._stop.set()
        if self._generator.ident is not None:
            self._generator.join(PATIENCE_SECONDS)
            assert not self._generator.is_alive()

    def command(self, role: str) -> list[str]:
        return ["monolith.launch.role", role, "--config", str(self.folder / f"{role}.json")]

    def await_trained(self, offset: int) -> None:
        """Wait until the trainer says that it is beyond an offset; it does while events come."""
        self.await_working("trainer")
        eventually(
            f"training at {offset}", lambda: self.status()["stream"].get("0", 0) >= offset, self.processes["trainer"]
        )

    def saved_offset(self) -> int:
        """Return the stream position of the newest snapshot."""
        path = latest_state(self.model_dir)
        assert path is not None
        offset: int = json.loads((path / "stream.json").read_text())["0"]
        return offset

    def close(self) -> None:
        self._stop.set()
        super().close()
        self.stop_generator()

    def _generate(self) -> None:
        append_forever(self.log, self.world, rate_per_second=RATE_PER_SECOND, stop=self._stop)
