"""Messages to files and to Kafka."""

import threading

import pytest

from monolith.observe.messages import JsonLinesFile
from tests.patience import PATIENCE_SECONDS


def test_messages_are_lines_in_order_and_a_file_goes_on(tmp_path):
    path = tmp_path / "deep" / "messages.jsonl"
    for first in (0, 1000):
        sink = JsonLinesFile(path)
        for number in range(first, first + 1000):
            sink.send(str(number))
        sink.close()
        sink.close()
        assert (sink.num_sent, sink.num_lost) == (1000, 0)
    assert path.read_text().splitlines() == [str(number) for number in range(2000)]


def test_no_message_no_file(tmp_path):
    JsonLinesFile(tmp_path / "messages.jsonl").close()
    assert not list(tmp_path.iterdir())


class Stuck(JsonLinesFile):
    """Writes nothing until it may."""

    def __init__(self, path, **options):
        super().__init__(path, **options)
        self.may_write = threading.Event()

    def _write(self, file):
        self.may_write.wait(PATIENCE_SECONDS)
        super()._write(file)


def test_a_slow_disk_loses_messages_and_not_time(tmp_path, caplog):
    sink = Stuck(tmp_path / "messages.jsonl", queue_messages=10)
    for number in range(100):
        sink.send(str(number))
    assert (sink.num_sent, sink.num_lost) == (10, 90)
    sink.may_write.set()
    with caplog.at_level("WARNING"):
        sink.close()
    assert (tmp_path / "messages.jsonl").read_text().splitlines() == [str(number) for number in range(10)]
    assert "90 messages were lost, 10 written" in caplog.text


class _Broken:
    """A file on a disk that is full."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def write(self, text):
        raise OSError(28, "No space left on device")


class Full(JsonLinesFile):
    def _write(self, file):
        file.close()
        super()._write(_Broken())


def test_a_full_disk_loses_messages_and_training_goes_on(tmp_path, caplog):
    sink = Full(tmp_path / "messages.jsonl")
    with caplog.at_level("WARNING"):
        sink.send("1")
        sink.send("2")
        sink.close()
    assert (sink.num_sent, sink.num_lost) == (0, 2)
    assert "No space left on device" in caplog.text


def test_messages_arrive_in_kafka():
    confluent_kafka = pytest.importorskip("confluent_kafka")
    kafka = pytest.importorskip("monolith.observe.messages.kafka")
    broker = confluent_kafka.Producer({"test.mock.num.brokers": 1})
    address = broker.list_topics(timeout=PATIENCE_SECONDS).brokers[1]
    sink = kafka.KafkaMessages(f"{address.host}:{address.port}", "insight")
    for number in range(50):
        sink.send(str(number))
    sink.close()
    sink.close()
    assert (sink.total, sink.success, sink.failed, sink.num_sent, sink.num_lost) == (50, 50, 0, 50, 0)
    settings = {"bootstrap.servers": f"{address.host}:{address.port}", "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["insight"])
    found = set()
    while len(found) < 50:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None and message.error() is None
        found.add(int(message.value()))
    consumer.close()
    assert found == set(range(50))


def test_messages_that_kafka_does_not_take_are_counted(monkeypatch, caplog):
    kafka = pytest.importorskip("monolith.observe.messages.kafka")
    monkeypatch.setattr(kafka, "CLOSE_SECONDS", 0.1)
    sink = kafka.KafkaMessages("127.0.0.1:1", "insight", settings={"queue.buffering.max.messages": 3, "log_level": 0})
    for number in range(10):
        sink.send(str(number))
    with caplog.at_level("WARNING"):
        sink.close()
    assert (sink.total, sink.num_lost) == (10, 10)
    assert "10 of 10 messages were lost" in caplog.text
