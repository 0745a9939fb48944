"""The chief's endpoint and its workers over real sockets: joining, positions, cuts, generations, the end."""

import threading
import time

import pytest

from monolith.errors import FencedError, RemoteError
from monolith.parallel.coordination import GenerationOverError
from monolith.parallel.coordination.messages import CoordinationRequest, ask
from monolith.wire import Client
from tests.parallel.coordination.small_job import chief_status, eventually, join, opening
from tests.patience import PATIENCE_SECONDS


def test_a_worker_waits_until_the_chief_has_restored(chief, link_to):
    joined = []
    waiting = threading.Thread(target=lambda: joined.append(join(link_to())))
    waiting.start()
    time.sleep(0.1)
    assert not joined
    chief.open(opening(positions={1: {"offset": 12}}, last_step=40, global_step=3))
    waiting.join(PATIENCE_SECONDS)
    assert (joined[0].position, joined[0].last_step, joined[0].global_step) == ({"offset": 12}, 40, 3)
    assert (joined[0].servers, joined[0].generation) == (["127.0.0.1:1"], 1)


def test_a_worker_does_not_wait_for_ever(link_to):
    with pytest.raises(TimeoutError, match="was not ready within 0.1 s"):
        join(link_to(), timeout_seconds=0.1)


@pytest.mark.parametrize(
    ("index", "changes", "words"),
    [
        (3, {}, "there is no worker 3: the job has num_workers=3"),
        (0, {}, "there is no worker 0"),
        (1, {"plan_hash": 8}, "another lookup plan"),
        (1, {"settings": {"num_ps": 2}}, "worker 1 has num_ps=2, the chief 1"),
        (1, {"settings": {"num_ps": 1, "seed": 4}}, "worker 1 has seed=4, the chief None"),
    ],
)
def test_a_worker_of_another_job_is_refused_by_name(chief, link_to, index, changes, words):
    chief.open(opening())
    with pytest.raises(RemoteError, match=words):
        join(link_to(index), **changes)


def test_a_restarted_worker_goes_on_where_the_lost_one_was(chief, link_to):
    chief.open(opening())
    first = link_to()
    assert join(first).position is None
    for offset in (10, 20, 30):
        first.record({"offset": offset}, global_step=offset)
    first.close()  # sends what is left
    assert join(link_to()).position == {"offset": 30}
    assert chief.global_step == 30


def test_of_two_processes_that_are_the_same_worker_the_later_one_counts(chief, link_to):
    chief.open(opening())
    old, new = link_to(), link_to()
    join(old)
    join(new)
    new.record({"offset": 5}, global_step=1)
    old.record({"offset": 99}, global_step=1)
    eventually(lambda: old._error is not None)
    with pytest.raises(FencedError, match="another process has joined as worker 1"):
        old.check()
    new.close()
    assert join(link_to()).position == {"offset": 5}


def test_a_cut_holds_workers_between_two_batches(chief, link_to):
    chief.open(opening(positions={2: {"offset": 70}}))
    link, ended = link_to(), threading.Event()
    join(link)

    def train() -> None:
        offset = 0
        while not ended.is_set():
            with link.gate:
                offset += 1
                pushed.append(offset)
                time.sleep(0.001)
                link.record({"offset": offset}, global_step=offset)

    pushed: list[int] = []
    worker = threading.Thread(target=train)
    worker.start()
    try:
        for _ in range(5):
            before = len(pushed)
            eventually(lambda before=before: len(pushed) > before + 3)
            with chief.cut(timeout_seconds=PATIENCE_SECONDS) as positions:
                held = pushed[-1]
                assert positions == {1: {"offset": held}, 2: {"offset": 70}}  # worker 2 has not come yet
                time.sleep(0.02)
                assert pushed[-1] == held
    finally:
        ended.set()
        worker.join()


def test_a_cut_waits_for_what_a_worker_pushes_in_the_background(chief, link_to):
    chief.open(opening())
    link = link_to()
    link.before_pause = lambda: link.record({"offset": 9}, global_step=9)
    join(link)
    with chief.cut(timeout_seconds=PATIENCE_SECONDS) as positions:
        assert positions[1] == {"offset": 9}


def test_a_report_from_before_a_pause_does_not_end_it(chief, link_to):
    chief.open(opening())
    link = link_to()
    join(link)
    link.record({"offset": 3}, global_step=1)
    eventually(lambda: chief.global_step == 1)
    with chief.cut(timeout_seconds=PATIENCE_SECONDS):
        link._send(link._reporter, link._report)  # it was on its way
        assert chief_status(chief)["workers"][1]["state"] == "paused"


def test_a_cut_reaches_a_worker_that_waits_for_events(chief, link_to):
    chief.open(opening())
    join(link_to())
    began = time.monotonic()
    with chief.cut(timeout_seconds=PATIENCE_SECONDS) as positions:
        assert time.monotonic() - began < PATIENCE_SECONDS / 2
        assert positions[1] is None


def test_a_cut_does_not_wait_for_ever(chief, link_to):
    chief.open(opening())
    link = link_to()
    join(link)
    link.record({"offset": 3}, global_step=1)
    eventually(lambda: chief.global_step == 1)
    with link.gate, chief.cut(timeout_seconds=0.1) as positions:  # a batch that takes for ever
        assert positions[1] == {"offset": 3}


def test_workers_of_an_older_generation_join_again(chief, link_to):
    chief.open(opening())
    link = link_to()
    join(link)
    link.record({"offset": 50}, global_step=5)
    chief.suspend()
    eventually(lambda: link._error is not None)
    with pytest.raises(GenerationOverError, match="generation 1 of the job is over"):
        link.check()
    chief.open(opening(2, positions={1: {"offset": 40}}))
    again = join(link_to())
    assert (again.generation, again.position) == (2, {"offset": 40})
    link.close()  # its last report is of another generation
    assert join(link_to()).position == {"offset": 40}


def test_the_job_ends_when_all_have_finished(chief, link_to):
    chief.open(opening())
    links = [link_to(1), link_to(2)]
    for link in links:
        join(link)
    ends = [
        threading.Thread(target=link.finish, args=("the data ended",), kwargs={"timeout_seconds": PATIENCE_SECONDS})
        for link in links
    ]
    ends[0].start()
    eventually(lambda: chief.unfinished == [2])
    assert chief.wait_for_workers(timeout_seconds=0.05) == [2]
    ends[1].start()
    assert chief.wait_for_workers(timeout_seconds=PATIENCE_SECONDS) == []
    assert all(end.is_alive() for end in ends)  # until the last snapshot is written, they may have to go back
    ending = threading.Thread(target=chief.end)
    ending.start()
    for end in ends:
        end.join(PATIENCE_SECONDS)
        assert not end.is_alive()
    links[0].close()
    assert ending.is_alive()  # a worker may still need its servers
    links[1].close()
    ending.join(PATIENCE_SECONDS)
    assert not ending.is_alive()


def test_a_finished_worker_goes_back_with_the_others(chief, link_to):
    chief.open(opening())
    link, errors = link_to(), []
    join(link)

    def finish() -> None:
        try:
            link.finish("the data ended", timeout_seconds=PATIENCE_SECONDS)
        except GenerationOverError as error:
            errors.append(error)

    waiting = threading.Thread(target=finish)
    waiting.start()
    eventually(lambda: chief.unfinished == [2])
    chief.suspend()
    waiting.join(PATIENCE_SECONDS)
    assert errors
    chief.open(opening(2))
    assert chief.unfinished == [1, 2]


def test_a_check_ends_the_wait_for_workers(chief):
    def check() -> None:
        raise ConnectionError("a server is lost")

    with pytest.raises(ConnectionError, match="a server is lost"):
        chief.wait_for_workers(timeout_seconds=PATIENCE_SECONDS, check=check)


def test_workers_are_told_to_stop_at_once(chief, link_to):
    chief.open(opening())
    link, told = link_to(), threading.Event()
    link.on_stop = told.set
    join(link)
    chief.request_stop()
    assert told.wait(PATIENCE_SECONDS)
    assert link.stops


def test_later_workers_start_when_the_job_has_taken_steps(chief, link_to):
    chief.open(opening())
    link, passed = link_to(), []
    join(link)
    assert not link.wait_for_step(4, timeout_seconds=0.05)
    waiting = threading.Thread(target=lambda: passed.append(link.wait_for_step(4, timeout_seconds=PATIENCE_SECONDS)))
    waiting.start()
    chief.note_step(4)
    waiting.join(PATIENCE_SECONDS)
    assert passed == [True]


def test_a_lost_chief_is_noticed(link_to, chief):
    chief.open(opening())
    link = link_to(lost_seconds=0.2)
    join(link)
    chief.close()
    eventually(lambda: link._error is not None)
    with pytest.raises(ConnectionError, match="the chief is lost"):
        link.check()


def test_the_status_names_every_worker(chief, link_to):
    chief.open(opening())
    link = link_to()
    join(link)
    link.record({"offset": 1}, global_step=9, figures={"steps_per_second": 2.5})
    eventually(lambda: chief.global_step == 9)
    status = chief_status(chief)
    assert status["global_step"] == 9
    assert [worker["index"] for worker in status["workers"]] == [0, 1, 2]
    assert status["workers"][1]["state"] == "training"
    assert status["workers"][1]["steps_per_second"] == 2.5
    assert status["workers"][2]["state"] == "not here yet"


def test_a_stranger_learns_nothing(chief):
    with Client(chief.address) as client, pytest.raises(Exception, match="secret"):
        client.request(ask(CoordinationRequest.STATUS), PATIENCE_SECONDS)
