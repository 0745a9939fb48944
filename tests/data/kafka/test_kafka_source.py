"""Batches, positions and shards of a Kafka source, against a broker over TCP."""

import itertools
import threading

import pytest
from confluent_kafka import Producer

from monolith.data import OffsetError, Pipeline, assert_resume_is_exact
from monolith.data.kafka import BrokerError, KafkaSource, KafkaWriter, kafka_source
from monolith.data.parts import PartSource, redivide
from monolith.features import ids_of_texts
from tests.data.kafka.broker import NUM_PARTITIONS

# Ends two seconds after the last record; the broker answers at once instead of holding a fetch for half a second.
SHORT = {"stream_timeout_ms": 0, "message_poll_timeout_ms": 2000, "configuration": {"fetch.wait.max.ms": "10"}}


def made(partition, count, first=0):
    return [b"p%d-%d" % (partition, n) * (n % 3) for n in range(first, first + count)]


def texts(batch, column="record"):
    return [bytes(row) for row in batch.columns[column].to_list()]


def by_partition(batches):
    found = {}
    for batch in batches:
        found.setdefault(batch.partition, []).append((batch.first, batch.last, texts(batch)))
    return found


def finite(broker, topics, **options):
    return KafkaSource(topics, broker.address, **{"batch_size": 10, "follow": False, **options})


def test_batches_are_cut_at_multiples_of_the_batch_size_in_each_partition(broker, topic, write):
    counts = [25, 0, 10, 7]
    for partition, count in enumerate(counts):
        write(topic, partition, made(partition, count)) if count else None
    found = by_partition(finite(broker, topic))
    assert set(found) == {f"{topic}:{p}" for p in (0, 2, 3)}
    for partition, count in enumerate(counts):
        records = made(partition, count)
        expected = [(a, min(a + 10, count), records[a : a + 10]) for a in range(0, count, 10)]
        assert found.get(f"{topic}:{partition}", []) == expected


def test_keys_and_timestamps_come_along(broker, topic, write):
    write(topic, 0, [b"a", b"b", b"c"], keys=[b"k1", None, b""])
    (batch,) = finite(broker, topic)
    assert texts(batch, "key") == [b"k1", b"", b""]
    stamps = batch.columns["timestamp"].tolist()
    assert all(1.6e12 < stamp < 1e13 for stamp in stamps) and stamps == sorted(stamps)
    (batch,) = finite(broker, topic, columns=["record"])
    assert list(batch.columns) == ["record"]


def test_resume_is_exact_over_partitions_and_topics(broker, topic, write):
    for number, name in enumerate([topic, topic + "b"]):
        for partition in range(NUM_PARTITIONS):
            write(name, partition, made(partition, 12 + 9 * partition + number))
    topics = [topic, topic + "b"]
    assert_resume_is_exact(lambda: finite(broker, topics, batch_size=8))
    assert_resume_is_exact(lambda: finite(broker, topics, batch_size=8).shard(3, 1))
    offsets = {f"{topic}:1": 13, f"{topic}b:2": 5}
    assert_resume_is_exact(lambda: finite(broker, topics, batch_size=8, start=offsets))


def test_partitions_take_turns(broker, topic, write):
    for partition in range(NUM_PARTITIONS):
        write(topic, partition, made(partition, 30))
    order = [batch.partition for batch in finite(broker, topic)]
    assert order == [f"{topic}:{p}" for p in range(NUM_PARTITIONS)] * 3


def test_long_partitions_are_held_back_and_nothing_is_lost(broker, topic, write, monkeypatch):
    """More records than the queues take while another partition is read: fetching pauses and goes on."""
    monkeypatch.setattr(kafka_source, "_MAX_QUEUED_BYTES", 4 * 200 * 256)  # 200 small records per partition
    counts = [40, 9_000, 3_000, 1]
    for partition, count in enumerate(counts):
        write(topic, partition, made(partition, count))
    source = finite(broker, topic, batch_size=50, poll_batch_size=700)
    found, longest = {}, 0
    for batch in source:
        found.setdefault(batch.partition, []).extend(texts(batch))
        longest = max(longest, *map(len, source._queues.values()))
    assert found == {f"{topic}:{p}": made(p, count) for p, count in enumerate(counts)}
    assert longest <= 200 + 2 * 700  # a fetch takes twice 700 at most


def test_offsets_without_records_make_batches_shorter(broker, topic):
    # The marks that this broker makes have a checksum of 0.
    unchecked = {"configuration": {"check.crcs": "false", "fetch.wait.max.ms": "10"}}
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    for number in range(4):  # five records and the mark of the commit each: offsets 5, 11, 17 and 23 have no record
        producer.begin_transaction()
        for place in range(5):
            producer.produce(topic, b"%d" % (6 * number + place), partition=1)
        producer.commit_transaction(60)

    def expected(size, end):
        return [
            (a, min(a + size, end), [b"%d" % o for o in range(a, min(a + size, end)) if o % 6 != 5])
            for a in range(0, end, size)
        ]

    assert by_partition(finite(broker, topic, batch_size=4, **unchecked))[f"{topic}:1"] == expected(4, 24)
    one_each = by_partition(finite(broker, topic, batch_size=1, **unchecked))[f"{topic}:1"]
    assert one_each == [batch for batch in expected(1, 24) if batch[2]]
    assert_resume_is_exact(lambda: finite(broker, topic, batch_size=4, **unchecked))
    # Following, the batch whose last offset is a mark is complete once the end of the partition is known.
    follower = KafkaSource(topic, broker.address, batch_size=6, **{**SHORT, **unchecked})
    assert by_partition(follower)[f"{topic}:1"] == expected(6, 24)
    with pytest.raises(BrokerError, match=r"failed CRC32C check"):
        list(finite(broker, topic))


def test_a_follower_waits_for_whole_batches_and_stops_when_told(broker, topic, write):
    write(topic, 0, made(0, 15))
    write(topic, 1, made(1, 4))
    stop = threading.Event()
    source = KafkaSource(topic, broker.address, batch_size=10, stop=stop)
    batches = iter(source)
    assert (batch := next(batches)).name == f"{topic}:0[0, 10)" and texts(batch) == made(0, 10)
    write(topic, 1, made(1, 6, first=4))
    assert (batch := next(batches)).name == f"{topic}:1[0, 10)" and texts(batch) == made(1, 10)
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    assert next(batches, None) is None
    assert source.state() == {f"{topic}:{p}": offset for p, offset in enumerate([10, 10, 0, 0])}


def test_silence_ends_a_follower_with_a_time_limit_and_its_tail_stays(broker, topic, write):
    write(topic, 0, made(0, 15))
    source = KafkaSource(topic, broker.address, batch_size=10, **SHORT)
    assert by_partition(source) == {f"{topic}:0": [(0, 10, made(0, 10))]}
    write(topic, 0, made(0, 5, first=15))
    assert by_partition(source) == {f"{topic}:0": [(10, 20, made(0, 20)[10:])]}


def test_iterating_again_goes_on_and_sees_what_was_added(broker, topic, write):
    write(topic, 2, made(2, 12))
    source = finite(broker, topic)
    first = next(iter(source))
    assert (first.first, first.last) == (0, 10)
    assert by_partition(source) == {f"{topic}:2": [(10, 12, made(2, 12)[10:])]}
    write(topic, 2, made(2, 20, first=12))
    assert [(a, b) for a, b, _ in by_partition(source)[f"{topic}:2"]] == [(12, 20), (20, 30), (30, 32)]
    source.close()
    assert list(source) == []


def test_start_latest_and_empty_records(broker, topic, write):
    write(topic, 0, made(0, 9))
    source = finite(broker, topic, start="latest", filter_empty=True)
    assert source.state()[f"{topic}:0"] == 9
    write(topic, 0, made(0, 3, first=9))  # offset 9 is empty: batch [9, 10) has nothing left
    assert [(batch.name, texts(batch)) for batch in source] == [(f"{topic}:0[10, 12)", made(0, 2, first=10))]


def test_shards_divide_the_partitions_of_all_topics(broker, topic, write):
    topics = [topic, topic + "b"]
    for name in topics:
        for partition in range(NUM_PARTITIONS):
            write(name, partition, made(partition, 5))
    whole = by_partition(finite(broker, topics))
    parts = [by_partition(finite(broker, topics).shard(3, index)) for index in range(3)]
    assert [len(part) for part in parts] == [3, 3, 2]
    assert {name: value for part in parts for name, value in part.items()} == whole
    nested = finite(broker, topics).shard(2, 0).shard(2, 1)
    assert nested.partitions == (f"{topic}:2", f"{topic}b:2")
    with pytest.raises(ValueError, match="8 partitions cannot be divided among 9 shards"):
        finite(broker, topics).shard(9, 0)
    other = finite(broker, topics).shard(3, 1)
    with pytest.raises(ValueError, match=rf"names {topic}:0.* same topics and shard"):
        other.restore(finite(broker, topics).shard(3, 0).state())


def test_another_number_of_workers_goes_on_with_the_positions_of_all_partitions(broker, topic, write):
    for partition in range(NUM_PARTITIONS):
        write(topic, partition, made(partition, 20))
    source, found, positions = finite(broker, topic), {}, []
    for index in range(2):
        part = PartSource(source, 2, index)
        for batch in itertools.islice(part, 1 + index):
            found.setdefault(batch.partition.partition("/")[0], []).extend(texts(batch))
        positions.append(part.state())
    for index, position in enumerate(redivide(Pipeline(source).prefetch(0), positions, 3)):
        part = PartSource(source, 3, index)
        part.restore(position)
        for batch in part:
            found.setdefault(batch.partition.partition("/")[0], []).extend(texts(batch))
    assert found == {f"{topic}:{p}": made(p, 20) for p in range(NUM_PARTITIONS)}
    with pytest.raises(ValueError, match="4 partitions cannot be divided among 5 shards"):
        redivide(source, positions, 5)
    with pytest.raises(ValueError, match="cannot be given out anew to 3: a Kafka topic"):
        redivide(Pipeline(source).rebatch(4), positions, 3)


def test_a_position_without_a_new_partition_reads_it_from_its_beginning(broker, topic, write):
    for partition in range(2):
        write(topic, partition, made(partition, 5))
    source = finite(broker, topic, start="latest")
    source.restore({f"{topic}:0": 3})
    assert by_partition(source) == {f"{topic}:0": [(3, 5, made(0, 5)[3:])], f"{topic}:1": [(0, 5, made(1, 5))]}


def test_expired_offsets_are_an_error_that_says_what_is_left(broker, topic, write):
    write(topic, 3, [b"x" * 100_000] * 120)  # the broker keeps 5 MB
    source = finite(broker, topic)
    first = next(iter(source))
    low = first.first
    assert 0 < low < 120
    source.restore({f"{topic}:3": 7})
    message = rf"offset 7 of {topic}:3 .* has {low} to 119; {low - 7} offsets expired .* restoring '{topic}:3' to {low}"
    with pytest.raises(OffsetError, match=message):
        next(iter(source))
    source.restore({f"{topic}:3": 500})
    with pytest.raises(OffsetError, match=rf"offset 500 of {topic}:3 .* has {low} to 119; the topic was made anew"):
        next(iter(source))


def test_offsets_that_expire_while_reading_are_the_same_error(broker, topic, write):
    write(topic, 0, [b"a"] * 10)
    source = finite(broker, topic, configuration={"fetch.message.max.bytes": "1000"})
    source._open()
    source._reader.assign({f"{topic}:0": 400})  # as if the broker had dropped what is next
    with pytest.raises(OffsetError, match=rf"offset 400 of {topic}:0 .* has 0 to 9"):
        list(source)
    assert by_partition(source) == {f"{topic}:0": [(0, 10, [b"a"] * 10)]}  # nothing was skipped


def test_a_missing_topic_is_named(broker):
    with pytest.raises(BrokerError, match="Kafka topic 'no-such-topic' at .* create it, or correct `topics`"):
        finite(broker, "no-such-topic").state()


def test_a_writer_tells_of_records_that_did_not_arrive(broker, topic):
    with KafkaWriter(broker.address) as writer:
        writer.write_records(topic, [b"1", b"2"], keys=[b"same", b"same"])
    assert [record for batch in finite(broker, topic) for record in texts(batch)] == [b"1", b"2"]
    with pytest.raises(ValueError, match="2 records and 1 keys"):
        writer.write_records(topic, [b"1", b"2"], keys=[b"k"])
    nobody = KafkaWriter("127.0.0.1:9", timeout_seconds=0.5)
    with pytest.raises(BrokerError, match=r"127\.0\.0\.1:9: 3 records were not acknowledged within 0\.5 s"):
        nobody.write_records(topic, [b"1"] * 3, partition=0)


@pytest.mark.services
def test_a_real_broker_resumes_exactly(real_servers, fresh_topic):
    with KafkaWriter(real_servers) as writer:
        writer.write_records(fresh_topic, made(0, 100), keys=[b"%d" % n for n in range(100)])
    assert_resume_is_exact(lambda: KafkaSource(fresh_topic, real_servers, batch_size=7, follow=False))


def test_text_in_json_messages_becomes_ids(broker, topic, write):
    write(topic, 0, [b'{"user": "u1", "tags": ["a", "b"]}', b'{"user": 7, "tags": null}', b'{"tags": []}'])
    (batch,) = Pipeline(finite(broker, topic)).parse("json", user="hash", tags="hash[]")
    assert batch.columns["user"].tolist() == ids_of_texts(["u1", "7", ""]).tolist()
    assert batch.columns["tags"].to_list() == [ids_of_texts(["a", "b"]).tolist(), [], []]
