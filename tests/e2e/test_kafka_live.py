"""From Kafka to a server: predictions follow the events, and kill -9 of the trainer loses and repeats none."""

import json
import random
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import monolith as mono
from benchmarks.machine import machine_facts
from monolith.data.input_config import InputConfig, input_settings
from monolith.train import TrainState
from tests.data.kafka.broker import running_broker
from tests.e2e.counting_model import counts, eager
from tests.e2e.kafka_job import BATCH, TOPIC, KafkaJob, KafkaMovie, columns_of
from tests.e2e.live_job import eventually

pytest.importorskip("confluent_kafka", reason="pip install 'monolith-recsys[kafka]'")


@pytest.fixture
def servers():
    with running_broker() as broker:
        yield broker.address


def restored(job: KafkaJob, servers: str) -> TrainState:
    """The state of the newest snapshot, in this process."""
    torch.manual_seed(0)
    model = KafkaMovie()
    with input_settings(InputConfig(kafka_topics=TOPIC, kafka_servers=servers)):
        state = TrainState(model, model.input_fn(mono.TRAIN))
    state.open(job.model_dir)
    return state


def asked(first: int, count: int) -> dict[str, np.ndarray]:
    return {name: values for name, values in columns_of(first, count).items() if name != "label"}


@pytest.mark.services
@pytest.mark.timeout(3600)  # of 50 kills and more; every wait inside has a limit of its own
def test_predictions_follow_and_every_event_is_trained_on_exactly_once(tmp_path, request, servers):
    num_kills = request.config.getoption("--kills", None) or 3
    dice = random.Random(request.config.getoption("--kills-seed", 0))
    began = time.monotonic()
    job = KafkaJob(tmp_path, servers)
    try:
        job.write_round()
        job.start("trainer")
        job.start("server")
        job.await_working("trainer")
        first = job.num_events
        before = np.array(job.ask(asked(first, 200)))
        job.start_producer()
        # Each event moves the prediction for its own user, also through the count of events.
        eventually(
            "predictions that follow",
            lambda: np.abs(np.array(job.ask(asked(first, 200))) - before).min() > 1e-3,
            *job.processes.values(),
        )
        for _ in range(num_kills):
            job.kill_at_a_random_instant("trainer", dice)
            job.start("trainer")
        job.await_trained(job.num_events)
        job.await_caught_up()
        job.end_trainer()
        job.stop_producer()

        trained, state = job.saved_events(), restored(job, servers)
        assert counts(state) == dict.fromkeys(trained, 1.0)
        assert state.global_step == len(trained) // BATCH
        columns = asked(max(0, len(trained) - 2000), 2000)  # the newest, and some that are not trained on yet
        served, expected = np.array(job.ask(columns)), eager(state, columns)
        np.testing.assert_allclose(served, expected, rtol=0, atol=1e-6)
    finally:
        job.close()
    if (path := request.config.getoption("--kills-report", None)) is not None:
        content = {
            "kills": {"trainer": num_kills},
            "seed": request.config.getoption("--kills-seed"),
            "seconds": round(time.monotonic() - began, 1),
            "events": len(trained),
            "generations": state.generation - 1,
            "largest_difference_of_predictions": float(np.abs(served - expected).max()),
        }
        Path(path).write_text(json.dumps({**content, "machine": machine_facts()}) + "\n")
