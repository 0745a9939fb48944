"""A broker for the tests of one file, and topics of their own."""

import importlib.util
import itertools
import os
import uuid

import pytest

from monolith.data.kafka import KafkaWriter
from tests.data.kafka.broker import running_broker

# Without the package (pip install 'monolith-recsys[kafka]') there is nothing to test here.
collect_ignore_glob = [] if importlib.util.find_spec("confluent_kafka") else ["test_*.py"]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker():
    with running_broker() as broker:
        yield broker


@pytest.fixture
def topic():
    return f"topic-{next(_numbers)}"


@pytest.fixture
def write(broker):
    """Append records of a partition."""
    writer = KafkaWriter(broker.address)

    def write_records(topic, partition, records, keys=None):
        writer.write_records(topic, records, keys, partition)

    return write_records


@pytest.fixture
def real_servers():
    servers = os.environ.get("MONOLITH_TEST_KAFKA")
    if not servers:
        pytest.skip("MONOLITH_TEST_KAFKA names no real broker (host:port)")
    return servers


@pytest.fixture
def fresh_topic():
    return f"monolith-test-{uuid.uuid4().hex[:12]}"
