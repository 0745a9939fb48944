"""When a second replica is asked, and how often."""

from monolith.parallel.replicas.hedging import Hedges


def after(*seconds: float, deadline_seconds: float = 1.0) -> float:
    """Return how long a replica may be silent after a hundred answers that took so long, in turn."""
    hedges = Hedges(None, deadline_seconds=deadline_seconds)
    for number in range(100):
        hedges.count_answer(seconds[number % len(seconds)])
    return hedges.delay_seconds


def test_the_silence_that_is_borne_follows_the_answers():
    assert after(0.004) == 0.008
    assert after(0.0001) == 0.002, "the system may have given the core to others"
    assert after(0.6) == 0.25
    assert after(0.6, deadline_seconds=0.2) == 0.05, "a quarter of the deadline, so that there is time for the rival"
    assert after(*[0.004] * 49, 0.2) == 0.008, "a few slow answers change nothing"


def test_it_forgets_answers_of_long_ago():
    hedges = Hedges(None, deadline_seconds=1.0)
    for seconds in (0.1, 0.004):
        for _ in range(100):
            hedges.count_answer(seconds)
    assert hedges.delay_seconds == 0.008


def test_a_given_silence_stays():
    hedges, never = Hedges(0.03, deadline_seconds=1.0), Hedges(0.0, deadline_seconds=1.0)
    for _ in range(100):
        hedges.count_answer(0.2)
        never.count_answer(0.2)
    assert hedges.delay_seconds == 0.03
    assert never.delay_seconds == float("inf")


def test_one_second_question_comes_to_ten_answers():
    hedges = Hedges(None, deadline_seconds=1.0)
    while hedges.take():
        pass
    asked = 0
    for _ in range(1000):
        hedges.count_answer(0.5)
        asked += hedges.take()
    assert 99 <= asked <= 100
