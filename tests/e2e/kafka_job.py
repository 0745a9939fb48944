"""A live job that reads Kafka: `monolith train` and `monolith serve`, and a producer that never stops for long."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.data.kafka import KafkaWriter
from tests.data.kafka.broker import NUM_PARTITIONS
from tests.e2e.counting_model import CountingMovie
from tests.e2e.live_job import PATIENCE_SECONDS, LiveJob, eventually

BATCH = 32
TOPIC = "ratings"
NUM_MOVIES = 50
ROUND_SECONDS = 0.5
"""Between two rounds of one batch per partition."""

MAX_AHEAD = 16 * BATCH * NUM_PARTITIONS
SLOW_ROUND_SECONDS = 5.0
"""Between two rounds while more events than that wait: a trainer that is killed again and again must keep up."""

MAX_EVENTS = 280_000
"""The broker drops what is over 5 MB in a partition; this many take 3.5 MB in each, at 50 bytes a record."""


class KafkaMovie(CountingMovie):
    """Where events come from is said by the settings of the run."""

    def input_fn(self, mode):
        return mono.data.kafka(batch_size=BATCH).parse("json", uid="int64", mov="int64", label="float32")


def columns_of(first: int, count: int) -> dict[str, Any]:
    """Return events: each has a user of its own, so that the count of a user is that of the event."""
    number = np.arange(first, first + count)
    movie = number * 7 % NUM_MOVIES
    return {"uid": number, "mov": movie, "label": (movie % 2).astype(np.float32)}


class KafkaJob(LiveJob):
    """Trainer and server as a user starts them, and events that arrive meanwhile."""

    def __init__(self, folder: Path, servers: str) -> None:
        super().__init__(folder)
        self.num_events = 0
        """Events that the broker has: batch after batch, partition after partition."""
        self._servers = servers
        self._writer = KafkaWriter(servers)
        self._stop = threading.Event()
        self._producer = threading.Thread(target=self._produce, daemon=True)

    def command(self, role: str) -> list[str]:
        if role == "server":
            options = {"port": 0, "sync-address": self._sync_address, "ready-file": self._ready}
            return ["monolith", "serve", str(self.exports), "--wait", *_flags(options)]
        options = {
            "model_dir": self.model_dir,
            "kafka_topics": TOPIC,
            "kafka_servers": self._servers,
            "export_base": self.exports,
            "base_name": "movie",
            "sync_targets": self._sync_address,
            "sync_every_seconds": 0.2,
            "export_every_seconds": 5.0,
            "save_checkpoints_secs": 0.2,
            "status_path": self._status,
        }
        return ["monolith", "train", f"{__name__}:KafkaMovie", *_flags(options)]

    def write_round(self) -> None:
        """Append a batch to each partition."""
        for _ in range(NUM_PARTITIONS):
            columns = {name: values.tolist() for name, values in columns_of(self.num_events, BATCH).items()}
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            partition = self.num_events // BATCH % NUM_PARTITIONS
            self._writer.write_records(TOPIC, [json.dumps(row).encode() for row in rows], partition=partition)
            self.num_events += BATCH

    def start_producer(self) -> None:
        self._producer.start()

    def stop_producer(self) -> None:
        self._stop.set()
        if self._producer.ident is not None:
            self._producer.join(PATIENCE_SECONDS)
            assert not self._producer.is_alive()

    def await_trained(self, num_events: int) -> None:
        """Wait until the trainer says that it has trained on so many; it says so while events come."""
        self.await_working("trainer")
        eventually(
            f"training on {num_events} events",
            lambda: sum(self.status()["stream"].values()) >= num_events,
            self.processes["trainer"],
        )

    def saved_events(self) -> list[int]:
        """Return the numbers of all events that the newest snapshot says it has trained on."""
        path = latest_state(self.model_dir)
        assert path is not None
        offsets = {
            int(name.rpartition(":")[2]): last for name, last in json.loads((path / "stream.json").read_text()).items()
        }
        return sorted(
            (place // BATCH * NUM_PARTITIONS + partition) * BATCH + place % BATCH
            for partition, last in offsets.items()
            for place in range(last)
        )

    def close(self) -> None:
        self._stop.set()
        super().close()
        self.stop_producer()

    def _produce(self) -> None:
        while self.num_events < MAX_EVENTS and not self._stop.wait(self._pause_seconds()):
            self.write_round()

    def _pause_seconds(self) -> float:
        try:
            trained = sum(self.status()["stream"].values())
        except FileNotFoundError:
            return SLOW_ROUND_SECONDS  # the trainer is starting, which may take long on a busy machine
        return ROUND_SECONDS if self.num_events - trained < MAX_AHEAD else SLOW_ROUND_SECONDS


def _flags(options: dict[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]
