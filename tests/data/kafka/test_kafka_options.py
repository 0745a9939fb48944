"""Options that are refused, and secrets that stay secret; no broker needed."""

import subprocess
import sys

import pytest

from monolith.data import OffsetError
from monolith.data.kafka import KafkaSource, KafkaWriter
from monolith.data.kafka.client import offset_error
from monolith.data.kafka.partition_queue import PartitionQueue
from monolith.data.kafka.patience import Patience
from monolith.data.kafka.settings import KafkaSettings


def source(**options):
    return KafkaSource(**{"topics": "t", "servers": "localhost:1", "batch_size": 4, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stream_timeout_ms": -2}, "Invalid stream_timeout value: -2"),
        ({"message_poll_timeout_ms": 0}, "Invalid message_poll_timeout value: 0"),
        ({"batch_size": 0}, "batch_size must be positive, got 0"),
        ({"poll_batch_size": 0}, "poll_batch_size must be positive, got 0"),
        ({"timeout_seconds": 0}, "timeout_seconds must be positive, got 0"),
        ({"topics": " , "}, "topics must be one or more different names"),
        ({"topics": ["a", "a"]}, "topics must be one or more different names"),
        ({"servers": ""}, "servers must be one or more"),
        ({"columns": ["value"]}, "columns must be some of record, key, timestamp, got \\['value'\\]"),
        ({"start": "offsets"}, "start must be 'earliest', 'latest' or offsets by partition, got 'offsets'"),
        ({"configuration": ["client.id=a", "oops"]}, "configuration entry 1 must be 'key=value'"),
        ({"configuration": ["conf.topic.auto.offset.reset=latest"]}, "'auto.offset.reset' is always 'error' here"),
        ({"configuration": {"enable.auto.commit": "true"}}, "belongs to the checkpoint"),
        ({"configuration": {"group.id": "g"}}, "say it by `group_id`"),
    ],
)
def test_bad_options_are_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        source(**options)


def test_settings_reach_the_client():
    settings = KafkaSettings(
        servers=["a:1", "b:2"],
        group_id="g",
        configuration=["conf.topic.consume.callback.max.messages=7", "client.id=x=y", "enable.auto.commit=False"],
    )
    given = settings.consumer()
    assert given["consume.callback.max.messages"] == "7" and given["client.id"] == "x=y"
    assert given["bootstrap.servers"] == "a:1,b:2" and given["group.id"] == "g"
    assert given["auto.offset.reset"] == "error" and given["enable.auto.commit"] == "false"


@pytest.mark.parametrize("make", [source, lambda **options: KafkaWriter("localhost:1", **options)])
def test_an_unknown_setting_is_named_and_no_secret_shown(make):
    configuration = {"sasl.password": "hunter2", "no.such.hunter2": "1"}
    with pytest.raises(ValueError, match=r"No such configuration property: \"no.such.\*\*\*\"") as caught:
        make(configuration=configuration).state()
    assert "hunter2" not in str(caught.value)


def test_secrets_are_not_printed():
    configuration = ["sasl.password=hunter2", "ssl.key.pem=hunter2", "sasl.oauthbearer.client.secret=hunter2"]
    assert "hunter2" not in repr(source(configuration=configuration))
    assert "hunter2" not in repr(KafkaSettings(servers="a:1", configuration=configuration))
    assert "hunter2" not in repr(KafkaWriter("a:1", configuration=configuration[:1]))
    with pytest.raises(ValueError, match="entry 0") as caught:
        source(configuration=["hunter2"])
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("state", [{}, {"t": 1}, {"t:x": 1}, {"other:0": 1}, {"t:0": -1}, {"t:0": "1"}, {"t:0": None}])
def test_a_state_that_is_no_position_is_refused(state):
    with pytest.raises(ValueError, match="state"):
        source().restore(state)


@pytest.mark.parametrize(
    ("stream_ms", "poll_ms", "ends_after_polls"),
    [(0, 100, 1), (100, 100, 1), (250, 100, 3), (50, 100, 1), (300, 100, 3)],
)
def test_a_stream_ends_after_so_many_empty_polls(stream_ms, poll_ms, ends_after_polls):
    patience = Patience(stream_timeout_ms=stream_ms, poll_timeout_ms=poll_ms)
    for _ in range(2):
        for poll in range(1, ends_after_polls + 1):
            patience.waited(poll_ms / 1000)
            assert patience.is_over == (poll == ends_after_polls)
        patience.arrived()
        assert not patience.is_over


def test_patience_without_limit_and_a_suspended_process():
    patience = Patience(stream_timeout_ms=-1, poll_timeout_ms=1)
    patience.waited(1e9)
    assert not patience.is_over
    patience = Patience(stream_timeout_ms=1000, poll_timeout_ms=1000)
    patience.waited(60)  # a slice of 0.1 s that took a minute: the process was stopped
    assert not patience.is_over


class Message:
    def __init__(self, offset):
        self.place = offset

    def offset(self):
        return self.place

    def value(self):
        return b"%d" % self.place

    def __len__(self):
        return len(self.value())


def test_a_queue_takes_no_message_twice_and_cuts_what_is_missing_short():
    queue = PartitionQueue("t:0", 3, 4)
    assert not queue.is_complete()
    queue.add([Message(3), Message(5)])
    queue.add([Message(3), Message(5), Message(6), Message(13)])
    cuts = []
    while queue.is_complete():
        batch = queue.cut(["record"])
        cuts.append((batch.first, batch.last, [bytes(row) for row in batch.columns["record"].to_list()]))
    assert cuts == [(3, 4, [b"3"]), (4, 8, [b"5", b"6"]), (8, 12, [])]
    queue.reach(16)
    assert len(queue.cut(["record"])) == 1 and len(queue) == 0 and queue.num_bytes == 0


def test_the_error_of_an_expired_offset_names_everything():
    error = offset_error("t:3", 5, (9, 20), KafkaSettings(servers="a:1"))
    assert isinstance(error, OffsetError)
    for part in ("a:1", "offset 5", "t:3", "9 to 19", "4 offsets expired", "retention"):
        assert part in str(error)


def test_without_the_package_the_error_says_what_to_install():
    program = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "from monolith.data.kafka import KafkaSource\n"
        "source = KafkaSource('t', 'localhost:1', batch_size=1)\n"
        "try: source.state()\n"
        "except ImportError as error: print(error)\n"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert "pip install 'monolith-recsys[kafka]'" in shown.stdout
