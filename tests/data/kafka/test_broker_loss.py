"""A broker that goes away, or was never there."""

import logging
import threading

import pytest

from monolith.data.kafka import BrokerError, KafkaSource, KafkaWriter
from tests.data.kafka.broker import running_broker
from tests.patience import PATIENCE_SECONDS

NOBODY = "127.0.0.1:9"


def filled_broker(broker):
    KafkaWriter(broker.address).write_records("t", [b"%0900d" % n for n in range(4000)], partition=0)


@pytest.mark.parametrize("follow", [False, True])
def test_servers_that_never_answer_are_named(follow):
    source = KafkaSource("t", NOBODY, batch_size=1, follow=follow, timeout_seconds=1)
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:9: topic 't' cannot be looked up within 1 s \(.*refused"):
        next(iter(source))


def test_a_broker_killed_while_reading_is_an_error_in_time():
    with running_broker() as broker:
        filled_broker(broker)
        small = {"fetch.message.max.bytes": "20000", "queued.max.messages.kbytes": "20", "queued.min.messages": "1"}
        source = KafkaSource("t", broker.address, batch_size=10, follow=False, timeout_seconds=4, configuration=small)
        batches = iter(source)
        seen = [next(batches).first]
        broker.kill()
        with pytest.raises(BrokerError, match=rf"{broker.address}: nothing of t:0 arrived .* up to 3999"):
            for batch in batches:
                seen.append(batch.first)
    assert seen == list(range(0, 10 * len(seen), 10))  # what had been fetched came out whole
    assert source.state()["t:0"] == 10 * len(seen)


def test_a_follower_with_a_time_limit_does_not_take_a_dead_broker_for_the_end():
    with running_broker() as broker:
        filled_broker(broker)
        source = KafkaSource(
            "t",
            broker.address,
            batch_size=4000,
            timeout_seconds=5,
            stream_timeout_ms=500,
            message_poll_timeout_ms=250,
        )
        batches = iter(source)
        assert len(next(batches)) == 4000
        broker.kill()
        with pytest.raises(BrokerError, match=broker.address):
            next(batches)


def test_a_follower_with_a_time_limit_does_not_take_a_slow_broker_for_the_end():
    with running_broker() as broker:
        filled_broker(broker)
        # A millisecond is less than any broker takes for its first answer.
        impatient = {"stream_timeout_ms": 1, "message_poll_timeout_ms": 1}
        source = KafkaSource("t", broker.address, batch_size=1000, **impatient)
        assert [batch.first for batch in source] == [0, 1000, 2000, 3000]


def test_a_follower_outlasts_a_dead_broker_warns_once_and_stops_at_once(caplog):
    stop = threading.Event()
    with running_broker() as broker:
        filled_broker(broker)
        source = KafkaSource("t", broker.address, batch_size=4000, stop=stop, timeout_seconds=2)
        batches = iter(source)
        assert len(next(batches)) == 4000
        broker.kill()
        with caplog.at_level(logging.WARNING):
            ended = threading.Event()
            reader = threading.Thread(target=lambda: (list(batches), ended.set()))
            reader.start()
            while not caplog.records:
                assert not ended.wait(0.01)
            assert not ended.wait(2.5)  # longer than the time after which it warns
            stop.set()
            assert ended.wait(PATIENCE_SECONDS)
    (warning,) = (record.getMessage() for record in caplog.records)
    assert broker.address in warning and "trying on" in warning
