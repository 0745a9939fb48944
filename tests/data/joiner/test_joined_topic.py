"""Impressions and actions through a topic: parsed, joined, and resumed to the bit."""

import pytest
import torch

from monolith.data import Batch, Pipeline, assert_resume_is_exact
from monolith.data.joiner import JoinConfig, Joiner
from monolith.data.kafka import KafkaSource, KafkaWriter
from tests.data.joiner.made_stream import SCHEMA, columns_of, join_one_by_one, made_partition, rows_of
from tests.data.kafka.broker import NUM_PARTITIONS, running_broker

pytest.importorskip("confluent_kafka", reason="pip install 'monolith-recsys[kafka]'")


def parse(batch: Batch) -> Batch:
    """Turn records of six packed int64 into columns."""
    table = batch.columns["record"].values.view(torch.int64).reshape(-1, len(SCHEMA.names))
    return batch.with_columns({name: table[:, place].contiguous() for place, name in enumerate(SCHEMA.names)})


def test_a_joined_topic_is_the_join_of_its_partitions_and_resumes_exactly():
    partitions = {
        f"t:{p}": made_partition(p, 60 + 10 * p, num_keys=6, disorder=4, partition=p) for p in range(NUM_PARTITIONS)
    }
    with running_broker() as broker:
        writer = KafkaWriter(broker.address)
        for number, events in enumerate(partitions.values()):
            rows = torch.stack(list(columns_of(events).values()), dim=1).numpy()
            writer.write_records("t", [row.tobytes() for row in rows], partition=number)

        def make():
            topic = KafkaSource("t", broker.address, batch_size=16, follow=False, columns=["record"])
            wanted = JoinConfig(
                key=("req_id", "item_id"),
                window_seconds=30,
                allowed_lateness_seconds=5,
                batch_seconds=10,
                num_partitions=len(topic.partitions),
                at_end="flush",
            )
            return Joiner(Pipeline(topic).map(parse, SCHEMA), wanted)

        expected, _, _ = join_one_by_one(partitions, window=30, lateness=5, step=10, flush=True)
        assert [rows_of(batch) for batch in make()] == expected
        assert_resume_is_exact(make)
