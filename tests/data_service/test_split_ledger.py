"""Who owns which split: by hand, and with trainers that are killed at random."""

import json
import random

import pytest

from monolith.data_service.dispatch.split_ledger import SplitLedger
from monolith.data_service.holding import Holding, SplitPosition
from monolith.errors import FencedError

LEASE = 10.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def at(batch: int) -> SplitPosition:
    return SplitPosition({"batch": batch}, batch)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(clock):
    return SplitLedger(3, lease_seconds=LEASE, clock=clock)


def take(ledger, trainer, *known, life="1", round=0):
    taken = ledger.take(trainer, life, round, known, range(ledger.num_splits))
    return (taken.split, taken.position) if taken.what == "split" else taken.what


def test_a_split_goes_to_one_trainer_and_the_round_ends_when_all_are_done(ledger):
    ledger.join("a", "1", Holding())
    ledger.join("b", "1", Holding())
    assert take(ledger, "a") == (0, SplitPosition())
    assert take(ledger, "b") == (1, SplitPosition())
    assert take(ledger, "a", 0) == (2, SplitPosition())
    assert take(ledger, "b", 1) == "wait"
    ledger.report("a", "1", Holding(0, {}, {0, 2}))
    assert take(ledger, "b", 1) == "wait"
    ledger.report("b", "1", Holding(0, {}, {1}))
    assert take(ledger, "a", 0, 2) == take(ledger, "b", 1) == "complete"
    assert take(ledger, "a", round=1) == (0, SplitPosition())


def test_a_split_whose_trainer_never_heard_of_it_is_given_again(ledger):
    ledger.join("a", "1", Holding())
    assert take(ledger, "a") == take(ledger, "a") == (0, SplitPosition())
    assert take(ledger, "a", 0) == (1, SplitPosition())


def test_after_the_lease_another_trainer_goes_on_at_the_last_report(ledger, clock):
    ledger.join("a", "1", Holding())
    ledger.join("b", "1", Holding())
    take(ledger, "a")
    ledger.report("a", "1", Holding(0, {0: at(5)}))
    clock.now += LEASE - 1
    assert take(ledger, "b") == (1, SplitPosition())
    clock.now += 1
    assert take(ledger, "b", 1) == (0, at(5))
    assert ledger.report("a", "1", Holding(0, {0: at(7)})) == [0], "it learns that it has lost it"
    assert ledger.report("b", "1", Holding(0, {0: at(6)})) == []


def test_what_a_trainer_took_after_its_checkpoint_goes_back_to_where_it_took_it(ledger, clock):
    ledger.join("a", "1", Holding())
    take(ledger, "a")
    ledger.report("a", "1", Holding(0, {0: at(5)}))
    clock.now += LEASE
    ledger.join("b", "1", Holding())
    assert take(ledger, "b") == (0, at(5))
    assert take(ledger, "b", 0) == (1, SplitPosition())
    ledger.report("b", "1", Holding(0, {0: at(9)}, {1}))
    # Its checkpoint knows of split 1, at batch 2, and not of split 0, which it took over in the middle.
    assert ledger.join("b", "2", Holding(0, {1: at(2)})) == (0, [])
    ledger.join("c", "1", Holding())
    assert take(ledger, "c") == (0, at(5))
    assert take(ledger, "c", 0) == (2, SplitPosition())
    assert take(ledger, "c", 0, 2) == "wait"


def test_a_trainer_that_is_late_loses_nothing_that_nobody_else_wanted(ledger, clock):
    ledger.join("a", "1", Holding())
    take(ledger, "a"), take(ledger, "a", 0)
    ledger.report("a", "1", Holding(0, {0: at(5), 1: at(3)}))
    clock.now += 10 * LEASE
    ledger.join("b", "1", Holding())
    assert take(ledger, "b") == (0, at(5))
    round, lost = ledger.join("a", "2", Holding(0, {0: at(4), 1: at(2)}))
    assert (round, lost) == (0, [0])
    assert take(ledger, "b", 0) == (2, SplitPosition()), "split 1 is a's again"


def test_a_split_handed_over_at_the_very_position_of_the_checkpoint_is_no_loss(ledger):
    ledger.join("a", "1", Holding())
    take(ledger, "a")
    ledger.report("a", "1", Holding(0, {0: at(5)}))
    ledger.leave("a", "1")
    ledger.join("b", "1", Holding())
    assert take(ledger, "b") == (0, at(5))
    assert ledger.join("a", "2", Holding(0, {0: at(5)})) == (0, [])


def test_an_older_life_is_refused(ledger):
    ledger.join("a", "1", Holding())
    ledger.join("a", "2", Holding())
    with pytest.raises(FencedError, match="another process has joined as trainer 'a'"):
        take(ledger, "a", life="1")
    with pytest.raises(FencedError):
        ledger.report("a", "1", Holding())
    assert take(ledger, "a", life="2") == (0, SplitPosition())


def test_old_rounds_are_forgotten_once_complete(ledger):
    ledger.join("a", "1", Holding())
    for round in range(3):
        for split in range(3):
            take(ledger, "a", *range(split), round=round)
        ledger.report("a", "1", Holding(round, {}, {0, 1, 2}))
    assert sorted(ledger.rounds) == [1, 2]
    assert ledger.join("a", "2", Holding(1, {0: at(1)}, {1, 2})) == (1, [])
    with pytest.raises(ValueError, match="rounds 1, 2"):
        ledger.join("a", "3", Holding(0, {0: at(1)}))
    assert ledger.join("new", "1", Holding()) == (1, [])


def test_a_checkpoint_of_another_input_is_refused(ledger):
    with pytest.raises(ValueError, match="there are 3 splits"):
        ledger.join("a", "1", Holding(0, {}, {3}))


def test_a_position_of_an_older_version_says_epoch():
    value = Holding(3, {}, {1}).to_json()
    assert Holding.from_json({"epoch": value.pop("round"), **value}) == Holding(3, {}, {1})


@pytest.mark.parametrize("state", [{}, {"round": 0}, {"round": -1, "splits": {}, "done": []}, {"0": 5}])
def test_no_other_state_is_taken_for_a_position_in_a_service(state):
    with pytest.raises(ValueError, match="ServiceSource.state"):
        Holding.from_json(state)


class Trainer:
    """Trains by the book: model and position are in one checkpoint, and a crash goes back to it."""

    def __init__(self, name: str) -> None:
        self.name, self.life = name, 0
        self.holding, self.trained = Holding(), []
        self.save()

    def save(self) -> None:
        self.checkpoint = json.dumps([self.holding.to_json(), self.trained])

    def start(self, ledger: SplitLedger) -> None:
        holding, self.trained = json.loads(self.checkpoint)
        self.holding, self.life = Holding.from_json(holding), self.life + 1
        assert ledger.join(self.name, str(self.life), self.holding)[1] == []

    def step(self, ledger: SplitLedger, lengths: list[int], dice: random.Random) -> None:
        if not self.holding.splits or dice.random() < 0.2:
            known = [*self.holding.splits, *self.holding.done]
            taken = ledger.take(self.name, str(self.life), 0, known, range(len(lengths)))
            if taken.what == "split" and dice.random() < 0.9:  # else the answer is lost
                self.holding.splits[taken.split] = taken.position
        elif self.holding.splits:
            split = dice.choice(list(self.holding.splits))
            batch = self.holding.splits[split].num_batches
            if batch == lengths[split]:
                del self.holding.splits[split]
                self.holding.done.add(split)
            else:
                self.holding.splits[split] = at(batch + 1)
                self.trained.append([split, batch])
        if dice.random() < 0.5:
            ledger.report(self.name, str(self.life), self.holding)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_killed_each_batch_is_in_one_model_once(seed, clock):
    dice = random.Random(seed)
    lengths = [dice.randrange(6) for _ in range(8)]
    ledger = SplitLedger(len(lengths), lease_seconds=LEASE, clock=clock)
    trainers = [Trainer(name) for name in "abc"]
    for trainer in trainers:
        trainer.start(ledger)
    for number in range(4000):
        trainer = dice.choice(trainers)
        if number < 300 and dice.random() < 0.1:
            trainer.start(ledger)
        elif number < 300 and dice.random() < 0.05:
            saved = json.loads(json.dumps(ledger.to_json()))
            ledger = SplitLedger(len(lengths), lease_seconds=LEASE, clock=clock)
            ledger.load_json(saved)
        elif dice.random() < 0.1:
            trainer.save()
        else:
            trainer.step(ledger, lengths, dice)
    for trainer in trainers:
        ledger.report(trainer.name, str(trainer.life), trainer.holding)
    assert all(split.done for split in ledger.rounds[0])
    trained = sorted(tuple(pair) for trainer in trainers for pair in trainer.trained)
    assert trained == [(split, batch) for split, length in enumerate(lengths) for batch in range(length)]
