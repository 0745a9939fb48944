"""The probes of the online benchmark, and what its trainer says."""

import json
import threading

import numpy as np
import pytest

from benchmarks.online.asking import Asker
from benchmarks.online.job import Job, Progress
from benchmarks.online.probed_events import FIRST_PROBE_ID, ProbedEvents
from monolith.data import MovieEvents


def test_a_probe_is_one_event_and_the_others_stay():
    world = MovieEvents(7, users=50, movies=20)
    events = ProbedEvents(world)
    waiting = threading.Thread(target=events.probe, args=(5, 30.0))
    waiting.start()
    chunks, first = [], 0
    while waiting.is_alive():
        chunks.append(events.events(first, 10))
        first += 10
    waiting.join()
    users = np.concatenate([chunk["uid"] for chunk in chunks])
    expected = world.events(0, first)["uid"]
    assert (users == FIRST_PROBE_ID + 5).sum() == 1
    assert (users != expected).sum() == 1


def test_a_probe_that_nobody_appends_is_an_error():
    with pytest.raises(TimeoutError, match="does the generator run"):
        ProbedEvents(MovieEvents(7, users=50, movies=20)).probe(0, 0.01)


@pytest.mark.parametrize(("answer", "known"), [([0.5, 0.5], False), ([0.5, 0.5 + 6e-8], False), ([0.51, 0.5], True)])
def test_a_probe_is_known_when_its_answer_differs_from_that_for_unseen_ids(monkeypatch, answer, known):
    monkeypatch.setattr(Asker, "predict", lambda self, users, movies: answer)
    assert Asker("http://nowhere").knows(0) is known


def test_a_trainer_may_say_where_it_is_before_its_first_batch(tmp_path):
    job = Job(tmp_path, MovieEvents(7, users=50, movies=20), batch_size=8, sync_seconds=1.0)
    assert job.progress() == Progress(0.0, 0)
    (tmp_path / "status.json").write_text(json.dumps({"time": 5.0, "stream": {}}))
    assert job.progress() == Progress(5.0, 0)
    (tmp_path / "status.json").write_text(json.dumps({"time": 6.0, "stream": {"0": 512}}))
    assert job.progress() == Progress(6.0, 512)
