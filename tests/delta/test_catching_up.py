"""Targets that come, go and start anew: they lack nothing, and get no more than they lack."""

import random
import threading

import torch

from monolith.delta import DeltaLoop
from monolith.delta.since_export import SinceExport
from tests.delta.flaky_serving import FlakyServing, make_sender, push, train
from tests.delta.table_target import content, training_tables


def copy_of(tables):
    """Return the tables as an export that is written now has them."""
    made = training_tables()
    for name, table in tables.tables.items():
        for ids, _ in table.items():
            made[name].assign(ids, table.lookup(ids))
    return made


def test_a_target_that_loads_an_export_gets_what_changed_since(serving):
    tables = training_tables()
    train(tables, list(range(50)))
    with make_sender(tables, serving) as sender:
        assert push(sender).full
        sequence, exported = sender.begin_export(), copy_of(tables)
        train(tables, [1, 60], seed=1)
        push(sender)
        tables["uid"].erase(torch.tensor([2]))
        push(sender)
        # It was killed, and has loaded the export: two pushes are lost to it.
        serving.load_export(exported, 1, sequence)
        train(tables, [3], seed=2)
        delivery = push(sender)
        assert (delivery.full, delivery.num_rows, delivery.num_erased) == (False, 6, 1)
        assert content(serving.target.tables) == content(tables)
        train(tables, [4], seed=3)
        assert push(sender).num_rows == 2
        assert content(serving.target.tables) == content(tables)


def test_training_goes_on_while_the_changes_since_an_export_are_collected(serving, monkeypatch):
    tables = training_tables()
    train(tables, list(range(50)))

    def train_before_and_after(since_export, position, of=SinceExport.of):
        train(tables, [7], seed=4)
        changes = of(since_export, position)
        train(tables, [8], seed=5)
        return changes

    with make_sender(tables, serving) as sender:
        push(sender)
        sequence, exported = sender.begin_export(), copy_of(tables)
        train(tables, [1], seed=1)
        push(sender)
        serving.load_export(exported, 1, sequence)
        monkeypatch.setattr(SinceExport, "of", train_before_and_after)
        assert not push(sender).full
        push(sender)
        assert content(serving.target.tables) == content(tables)


def test_a_new_target_gets_what_changed_since_its_export(serving):
    tables = training_tables()
    train(tables, list(range(50)))
    other = FlakyServing()
    try:
        with make_sender(tables, serving) as sender:
            sequence, exported = sender.begin_export(), copy_of(tables)
            train(tables, [1], seed=1)
            push(sender)
            other.load_export(exported, 1, sequence)
            sender.retarget([serving.address, other.address])
            train(tables, [2], seed=2)
            reports = {one.target: one for one in sender.push_once().deliveries}
            assert (reports[other.address].full, reports[other.address].num_rows) == (False, 4)
            assert reports[serving.address].num_rows == 2
            assert content(other.target.tables) == content(serving.target.tables) == content(tables)
            sender.retarget([other.address])
            train(tables, [3], seed=3)
            sender.push_once()
            assert content(other.target.tables) == content(tables) != content(serving.target.tables)
    finally:
        other.close()


def test_only_the_exact_export_spares_a_target_the_full_sync(serving):
    tables = training_tables()
    train(tables, list(range(9)))
    with make_sender(tables, serving) as sender:
        push(sender)
        sequence, exported = sender.begin_export(), copy_of(tables)
        train(tables, [1], seed=1)
        push(sender)
        serving.load_export(exported, 1, sequence - 1)
        assert push(sender).full
        for _ in range(2):
            sender.begin_export()
        serving.load_export(exported, 1, sequence)
        assert push(sender).full, "changes since older exports are not kept"
        assert content(serving.target.tables) == content(tables)


def test_random_changes_exports_and_restarts_end_in_the_same_rows(serving):
    dice, tables, exports = random.Random(5), training_tables(), []
    with make_sender(tables, serving) as sender:
        for turn in range(120):
            train(tables, dice.sample(range(40), 3), seed=turn)
            if dice.random() < 0.3:
                tables["mov"].erase(torch.tensor([dice.randrange(40)]))
            if dice.random() < 0.15:
                exports.append((sender.begin_export(), copy_of(tables)))
            if exports and dice.random() < 0.2:
                number, rows = dice.choice(exports[-3:])
                serving.load_export(rows, 1, number)
            if dice.random() < 0.1:
                sender.retarget([])
                sender.retarget([serving.address])
            push(sender)
            assert content(serving.target.tables) == content(tables)


def test_a_loop_finds_targets_and_can_be_paused(serving):
    tables = training_tables()
    train(tables, [1])
    found, paused, pause = [], threading.Event(), threading.Event()

    def until(condition):
        while not condition():
            pause.wait(0.005)

    with make_sender(tables, serving) as sender:
        sender.retarget([])
        options = {"find_targets": lambda: list(found), "find_seconds": 0.01, "is_paused": paused.is_set}
        with DeltaLoop(sender, 0.01, **options) as loop:
            assert loop.running
            found.append(str(serving.address))
            until(lambda: content(serving.target.tables) == content(tables))
            paused.set()
            until(lambda: loop.num_paused >= 2)
            before = content(serving.target.tables)
            train(tables, [2])
            seen = loop.num_paused
            until(lambda: loop.num_paused >= seen + 3)
            assert content(serving.target.tables) == before
            paused.clear()
            until(lambda: content(serving.target.tables) == content(tables))
            found.clear()
            until(lambda: not sender.links)
            assert loop.running and not loop.errors
