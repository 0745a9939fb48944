"""Parts of the data, retries, and roles: the rules of a job without its processes."""

import pytest
import torch

from monolith.data import arrays
from monolith.data.parts import PartSource
from monolith.data.parts.part_source import num_events_in
from monolith.errors import FencedError
from monolith.parallel.coordination import ReplacedError
from monolith.train.job.retries import Retries
from monolith.train.job.served_state import key_of
from monolith.train.job_config import JobConfig


def whole():
    return arrays({"uid": torch.arange(10)}, batch_size=2)


def test_parts_share_nothing_and_have_partitions_of_their_own():
    parts = [list(PartSource(whole(), 3, index)) for index in range(3)]
    ids = sorted(id_ for part in parts for batch in part for id_ in batch.columns["uid"].tolist())
    assert ids == list(range(10))
    keys = [(batch.partition, batch.first) for part in parts for batch in part]
    assert len({partition for partition, _ in keys}) == 3
    assert len(set(keys)) == 5


def test_one_worker_reads_the_partitions_of_the_source_itself():
    assert {batch.partition for batch in PartSource(whole(), 1, 0)} == {batch.partition for batch in whole()}


def test_a_part_goes_back_to_a_position():
    part = PartSource(whole(), 2, 0)
    batches = iter(part)
    next(batches)
    position = part.state()
    rest = [batch.first for batch in batches]
    again = PartSource(whole(), 2, 0)
    again.restore(position)
    assert [batch.first for batch in again] == rest


def test_what_cannot_be_split_says_what_to_do():
    class Whole:
        schema = whole().schema

    with pytest.raises(ValueError, match="Whole cannot be split over 2 workers.*num_workers=1"):
        PartSource(Whole(), 2, 0)


def test_a_long_partition_still_has_a_key():
    (batch, *_) = whole()
    name = "x" * 300
    key = key_of(type(batch)(batch.columns, batch.first, batch.last, name))
    other = key_of(type(batch)(batch.columns, batch.first, batch.last, name + "y"))
    assert len(key.partition) == 64
    assert key.partition != other.partition


class Attempts:
    """Fails with each error in turn, then returns."""

    def __init__(self, *errors):
        self.errors, self.count = list(errors), 0

    def __call__(self):
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def clusters(*found):
    left = list(found)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_lost_processes_are_tried_again_for_free_with_the_same_servers():
    failures = []
    attempts = Attempts(TimeoutError("a"), ConnectionError("b"), FencedError("c"))
    rules = Retries(max_retries=0, wait_seconds=0.0)
    assert rules.run(attempts, clusters(["one"]), lambda: failures.append(1)) == "done"
    assert (attempts.count, len(failures)) == (4, 3)


def test_a_chief_that_was_fenced_does_not_begin_again():
    attempts = Attempts(TimeoutError("a"), FencedError("another chief"))
    with pytest.raises(FencedError, match="another chief"):
        Retries(max_retries=6, wait_seconds=0.0, is_chief=True).run(attempts, clusters(["one"]))
    assert attempts.count == 2


def test_other_servers_count_up_to_a_limit():
    rules = Retries(max_retries=1, wait_seconds=0.0)
    assert rules.run(Attempts(TimeoutError()), clusters(["one"], ["two"])) == "done"
    attempts = Attempts(TimeoutError(), TimeoutError("gone"), TimeoutError())
    with pytest.raises(TimeoutError, match="gone") as caught:
        rules.run(attempts, clusters(["one"], ["two"], ["three"], ["four"]))
    assert attempts.count == 2
    assert "max_retry_times is 1" in caught.value.__notes__[0]


@pytest.mark.parametrize("error", [ValueError("a mistake"), FileNotFoundError("no data"), ReplacedError("another")])
def test_other_errors_end_the_process(error):
    attempts = Attempts(error)
    with pytest.raises(type(error)):
        Retries(max_retries=6, wait_seconds=0.0).run(attempts, clusters(["one"]))
    assert attempts.count == 1


@pytest.mark.parametrize(
    ("role", "words"),
    [
        ({"num_workers": 2}, "num_ps=0: workers have their tables on parameter servers"),
        ({"num_ps": 1, "index": 1}, "index=1: there is no such worker, num_workers=1"),
        ({"num_ps": 1, "server_type": "ps", "index": 1}, "index=1: there is no such ps, num_ps=1"),
    ],
)
def test_a_role_that_no_job_has_is_refused(role, words):
    with pytest.raises(ValueError, match=words):
        JobConfig(**role).check()


def test_partial_recovery_brings_retries():
    assert [JobConfig(partial_recovery=value).num_retries for value in (None, False, True)] == [0, 0, 6]
    assert JobConfig(partial_recovery=True, max_retries=2).num_retries == 2


def test_one_process_is_no_job():
    assert not JobConfig().is_job
    assert not JobConfig(num_ps=2, is_local=True).is_job
    assert all(JobConfig(**role).is_job for role in ({"num_ps": 1}, {"num_workers": 2}, {"server_type": "ps"}))


def test_a_log_that_workers_read_by_turns_counts_once():
    parts = [PartSource(whole(), 2, index) for index in range(2)]
    ends = [{batch.partition: batch.last for batch in part} for part in parts]
    assert ends == [{"0/0of2": 10}, {"0/1of2": 8}]
    assert num_events_in(ends, all_done=True) == 10
    assert num_events_in(ends, all_done=False) == 8
    assert num_events_in([ends[0], {}], all_done=False) == 10
    assert num_events_in([{"a": 3, "b/c": 4}], all_done=False) == 7
    after_a_change = [{"0/0of2": 4, "0/0of2+0of3": 10}, {"0/1of2+1of3": 8}]
    assert num_events_in(after_a_change, all_done=False) == 8
