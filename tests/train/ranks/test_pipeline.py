"""What a rank does in the background: batches begin before their turn, in the order of all ranks, and pushes wait."""

import threading
import time

import pytest
import torch

from monolith.data import arrays
from monolith.train.ranks.pipeline import Overlap, RankPipeline

pytestmark = pytest.mark.timeout(60)


def make(overlap, fetch=lambda batch: (batch.first, threading.current_thread().name)):
    return RankPipeline(arrays({"uid": torch.arange(6)}, batch_size=2), None, overlap, fetch)


def wait_for_ready(pipeline, count):
    while pipeline.num_ready != count:
        time.sleep(0.001)


def test_a_batch_that_all_ranks_have_begins_before_its_turn():
    with make(Overlap(ids=True)) as pipeline:
        batches = pipeline.batches()
        first = next(batches)
        assert pipeline.fetched() is None  # nobody began it
        wait_for_ready(pipeline, 1)  # no more than one ahead
        pipeline.begin_ready(1)
        pipeline.begin_ready(1)  # it is begun once
        before = pipeline.position()
        assert next(batches).first == first.last
        assert pipeline.position() != before
        where, thread = pipeline.fetched()
        assert where == first.last
        assert thread.startswith("monolith-rank-lane")
        pipeline.begin_ready(0)  # another rank has no batch yet
        assert next(batches).last == 6
        assert pipeline.fetched() is None
        assert list(batches) == []


def test_rows_ahead_are_as_many_as_asked_for():
    with make(Overlap(num_rows_ahead=2)) as pipeline:
        batches = pipeline.batches()
        next(batches)
        wait_for_ready(pipeline, 2)
        pipeline.begin_ready(2)
        assert [(next(batches).first, pipeline.fetched()[0]) for _ in range(2)] == [(2, 2), (4, 4)]


def test_a_push_is_waited_for_and_its_error_is_raised():
    release, done = threading.Event(), []
    with make(Overlap(gradients=True)) as pipeline:
        pipeline.push(lambda: done.append(1), doing="pushing 1")
        pipeline.push(lambda: (release.wait(), done.append(2)), doing="pushing 2")
        pipeline.wait_for_pushes(but=1)
        assert done == [1]
        release.set()
        pipeline.wait_for_pushes()
        assert done == [1, 2]

        def fail():
            raise ValueError("no")

        pipeline.push(fail, doing="pushing 3")
        with pytest.raises(ValueError, match="no") as caught:
            pipeline.wait_for_pushes()
        assert "pushing 3" in caught.value.__notes__[0]


def test_nothing_is_in_the_background_unless_asked_for():
    assert not Overlap()
    assert Overlap(ids=True) and Overlap(late_steps=True) and Overlap(num_rows_ahead=1)
    assert not Overlap(ids=True).pushes_behind
