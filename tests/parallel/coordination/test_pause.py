"""A pause of a job: workers wait between two steps, say so, and notice everything that ends the wait."""

import threading

import pytest

from monolith.parallel.coordination import GenerationOverError
from monolith.train.controller.pause import JobPause
from tests.parallel.coordination.small_job import chief_status, eventually, join, opening
from tests.patience import PATIENCE_SECONDS


class Waiting:
    """A worker that comes to its next step, in a thread; `error` is what ended its wait, if anything did."""

    def __init__(self, link, wait=None):
        self.error = None
        self._wait = wait or link.wait_while_paused
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self._wait()
        except Exception as error:  # noqa: BLE001  looked at by the test
            self.error = error

    def ends(self):
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()
        return self.error


@pytest.fixture
def paused(chief, link_to):
    """A link that waits in a pause of its job."""
    chief.open(opening())
    link = link_to()
    join(link)
    chief.pause()
    eventually(lambda: link._news.pause)
    waiting = Waiting(link)
    eventually(lambda: chief.standing == [1])
    return link, waiting


def states(chief):
    return [one.get("state") for one in chief_status(chief)["workers"]][1:]


def test_a_worker_waits_until_the_pause_is_over(chief, paused):
    _, waiting = paused
    assert states(chief) == ["paused", "not here yet"]
    assert waiting.thread.is_alive()
    chief.resume()
    assert waiting.ends() is None
    assert chief.standing == []


def test_the_chief_names_who_waits_and_who_does_not_yet(chief, paused):
    drained = []
    pause = JobPause(chief, lambda: drained.append(1))
    assert pause.is_placed and not pause.place()  # the chief begins again in the pause of its job
    assert pause.workers() == ([1], [0, 2])
    assert pause.holds() and not pause.stand_still() and not pause.stand_still()
    assert drained == [1]
    assert pause.workers() == ([0, 1], [2])
    pause.lift()
    assert not chief.is_paused
    assert paused[1].ends() is None
    assert not pause.holds()
    assert pause.place()
    assert pause.workers() == ([], [0, 1, 2])  # what they said of the pause before does not count


def test_a_worker_that_joins_during_a_pause_knows_of_it_before_its_first_step(chief, link_to):
    chief.open(opening())
    chief.pause()
    link = link_to()
    assert join(link).pause
    waiting = Waiting(link)
    eventually(lambda: chief.standing == [1])
    chief.resume()
    assert waiting.ends() is None


def test_what_was_computed_is_pushed_before_a_worker_says_that_it_waits(chief, link_to):
    chief.open(opening())
    link = link_to()
    link.before_pause = lambda: link.record({"offset": 9}, global_step=9)
    join(link)
    chief.pause()
    eventually(lambda: link._news.pause)
    waiting = Waiting(link)
    eventually(lambda: chief.standing == [1])
    assert chief.positions()[0] == {"offset": 9}
    chief.resume()
    assert waiting.ends() is None


def test_a_save_during_a_pause_is_not_held_up(chief, paused):
    link, _ = paused
    for _ in range(3):
        with chief.cut(timeout_seconds=PATIENCE_SECONDS):
            assert chief.unpaused == [2]  # which is not here
        assert chief.standing == [1]
    assert link._error is None


def test_a_pause_outlives_a_generation_and_workers_go_back_in_it(chief, paused, link_to):
    link, waiting = paused
    chief.suspend()
    assert isinstance(waiting.ends(), GenerationOverError)
    chief.open(opening(2))
    assert chief.standing == []
    link.close()
    again = link_to()
    assert join(again).pause
    waiting = Waiting(again)
    eventually(lambda: chief.standing == [1])
    chief.resume()
    assert waiting.ends() is None


def test_the_end_of_the_job_ends_a_pause(chief, paused):
    chief.request_stop()
    assert paused[1].ends() is None
    assert chief.is_paused


def test_a_worker_that_was_asked_to_end_does_not_wait(chief, link_to):
    chief.open(opening())
    chief.pause()
    link, asked = link_to(), threading.Event()
    join(link)
    waiting = Waiting(link, lambda: link.wait_while_paused(asked.is_set))
    eventually(lambda: chief.standing == [1])
    asked.set()
    assert waiting.ends() is None


def test_a_lost_chief_ends_the_wait(chief, link_to):
    chief.open(opening())
    chief.pause()
    link = link_to(lost_seconds=0.2)
    join(link)
    waiting = Waiting(link)
    chief.close()
    assert "the chief is lost" in str(waiting.ends())


def test_a_pause_takes_no_time_from_a_chief_that_waits_for_workers(chief, paused, link_to):
    ticks, late = [], []
    waiting = threading.Thread(
        target=lambda: late.append(chief.wait_for_workers(timeout_seconds=0.3, check=lambda: ticks.append(1))),
        daemon=True,
    )
    waiting.start()
    eventually(lambda: len(ticks) > 5 or late)  # one comes after a tenth of a second
    assert not late
    chief.resume()
    waiting.join(PATIENCE_SECONDS)
    assert late == [[1, 2]]


def test_a_pause_takes_no_time_from_a_worker_that_starts_slowly(chief, link_to):
    chief.open(opening())
    chief.pause()
    link = link_to()
    join(link)
    waiting = Waiting(link, lambda: link.wait_for_step(4, timeout_seconds=0.0001))
    eventually(lambda: chief.standing == [1])  # it is counted, though it has not come to a step
    chief.resume()
    assert waiting.ends() is None


def test_a_worker_that_has_finished_takes_no_step_either(chief, link_to):
    chief.open(opening())
    link = link_to()
    join(link)
    finishing = Waiting(link, lambda: link.finish("the data ended"))
    eventually(lambda: chief.unfinished == [2])
    chief.pause()
    assert chief.standing == [1]
    chief.suspend()
    assert isinstance(finishing.ends(), GenerationOverError)
