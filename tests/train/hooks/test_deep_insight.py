"""Predictions of a sample of the events, as messages."""

import json

import numpy as np
import pytest

from monolith.observe.messages import JsonLinesFile
from monolith.train.hooks import DeepInsightHook
from monolith.train.hooks.deep_insight import is_sampled
from tests.train.counting_model import Events, train


class Sink:
    def __init__(self):
        self.messages, self.closed = [], 0

    def send(self, message):
        self.messages.append(json.loads(message))

    def close(self):
        self.closed += 1


def test_a_message_has_what_the_facts_name(tmp_path):
    sink = Sink()
    hook = DeepInsightHook(
        sink, model_name="movies", sample_ratio=1.0, extra_fields=["value", "req_time", "uid"], clock=lambda: 1.7e9
    )
    train(tmp_path, events=4, hooks=[hook])
    assert sink.messages[1] == {
        "model_name": "movies",
        "targets": ["pred"],
        "uid": 1,
        "req_time": 1_700_000_001,
        "train_time": 1_700_000_000,
        "labels": [1.0],
        "preds": [0.0],
        "sample_rates": [0.5],
        "extra_float": {"value": 1.0},
        "extra_int": {"req_time": 1_700_000_001},
    }
    assert len(sink.messages) == 4
    assert sink.closed == 1


def test_without_a_sample_rate_it_is_one(tmp_path):
    sink = Sink()
    hook = DeepInsightHook(sink, model_name="m", sample_ratio=1.0)
    train(tmp_path, events=Events(4, without=["sample_rate"]), hooks=[hook])
    assert sink.messages[0]["sample_rates"] == [1.0]


def test_the_same_events_are_chosen_in_every_run(tmp_path):
    chosen = []
    for name, batch_size in (("a", 4), ("b", 7)):
        sink = Sink()
        hook = DeepInsightHook(sink, model_name=name, sample_ratio=0.3)
        train(tmp_path / name, events=Events(200, batch_size=batch_size), hooks=[hook])
        chosen.append([one["uid"] for one in sink.messages])
    assert chosen[0] == chosen[1]
    assert 30 <= len(chosen[0]) <= 90


def test_a_sample_has_its_share_and_is_part_of_every_larger_one():
    uid = np.arange(100_000) % 1000 - 500
    req_time = 1_700_000_000 + np.arange(100_000) // 1000
    samples = [is_sampled(uid, req_time, ratio) for ratio in (0.0, 0.01, 0.1, 1.0)]
    assert [one.sum() for one in samples] == [
        0,
        pytest.approx(1000, rel=0.15),
        pytest.approx(10_000, rel=0.05),
        100_000,
    ]
    assert not (samples[1] & ~samples[2]).any()
    # Not one user at all times, nor one time for all users.
    assert len(set(uid[samples[1]])) > 500
    assert len(set(req_time[samples[1]])) > 90


def test_events_without_a_time_are_not_sent_and_the_log_says_so(tmp_path, caplog):
    sink = Sink()
    with caplog.at_level("WARNING"):
        hook = DeepInsightHook(sink, model_name="m", sample_ratio=1.0)
        train(tmp_path, events=Events(12, without=["req_time"]), hooks=[hook])
    assert sink.messages == []
    assert caplog.text.count("the events have no column req_time") == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"sample_ratio": 1.5}, "sample_ratio must be 0 to 1"),
        ({"sample_ratio": 1.0, "targets": ["ctr"]}, "there is no head 'ctr'; the model has pred"),
        ({"sample_ratio": 1.0, "extra_fields": ["city"]}, "the events have no column 'city'"),
    ],
)
def test_what_is_not_there_is_named(tmp_path, arguments, error):
    with pytest.raises(ValueError, match=error):
        train(tmp_path, events=4, hooks=[DeepInsightHook(Sink(), model_name="m", **arguments)])


def test_to_a_file_and_asked_for_by_a_setting(tmp_path):
    hook = DeepInsightHook(JsonLinesFile(tmp_path / "out" / "messages.jsonl"), model_name="m", sample_ratio=1.0)
    train(tmp_path / "a", events=8, hooks=[hook])
    lines = (tmp_path / "out" / "messages.jsonl").read_text().splitlines()
    assert [json.loads(line)["uid"] for line in lines] == list(range(8))
