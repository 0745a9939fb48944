"""A Kafka broker for tests: librdkafka's mock, in a process of its own, spoken to over TCP.

It keeps records in memory, 5 MB per partition, and gives every topic four partitions. What it loses by being killed
is lost for good: nothing here can start it again with its records.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.patience import PATIENCE_SECONDS

NUM_PARTITIONS = 4

_PROGRAM = """
import sys
from confluent_kafka import Producer
cluster = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
broker = next(iter(cluster.list_topics(timeout=300).brokers.values()))
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


class Broker:
    """A running broker."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        assert ":" in self.address, "the broker did not start"

    def kill(self) -> None:
        """End it as a crash would."""
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)


@contextmanager
def running_broker() -> Iterator[Broker]:
    """Start a broker, and end it on the way out."""
    broker = Broker()
    try:
        yield broker
    finally:
        broker.kill()
