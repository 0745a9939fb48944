"""Rows of zeros, where servers are not to keep any: they arrive as tombstones, whatever goes wrong on the way."""

import random
from dataclasses import replace

import pytest
import torch

from monolith.embedding import MultiTable
from tests.delta.flaky_serving import QUICK, TINY, FlakyServing, make_sender, push, train
from tests.delta.table_target import DIMS, content, training_tables

SPARING = replace(QUICK, skip_zero_embedding=True)


def set_to_zero(tables: MultiTable, ids: list[int]) -> None:
    tables.assign({name: (torch.tensor(ids), torch.zeros(len(ids), dim)) for name, dim in DIMS.items()})


def nonzero(tables: MultiTable) -> dict[str, dict[int, bytes]]:
    return {name: {one: row for one, row in rows.items() if row.strip(b"\0")} for name, rows in content(tables).items()}


def test_neither_a_full_sync_nor_a_delta_leaves_rows_of_zeros(serving):
    tables = training_tables()
    train(tables, list(range(20)))
    set_to_zero(tables, [1, 2, 100])
    with make_sender(tables, serving, settings=SPARING) as sender:
        first = push(sender)
        assert (first.full, first.num_rows, first.num_erased) == (True, 36, 6)
        assert content(serving.target.tables) == nonzero(tables)
        train(tables, [1], seed=1)
        set_to_zero(tables, [5])
        second = push(sender)
        assert (second.full, second.num_rows, second.num_erased) == (False, 2, 2)
        assert content(serving.target.tables) == nonzero(tables)
        assert not serving.target.tables["uid"].lookup(torch.tensor([5])).any()


def test_otherwise_they_are_rows_like_all_others(serving):
    tables = training_tables()
    set_to_zero(tables, [1, 2])
    with make_sender(tables, serving) as sender:
        assert (push(sender).num_rows, len(serving.target.tables["uid"])) == (4, 2)


def test_a_full_sync_takes_away_what_became_zero_meanwhile(serving):
    tables = training_tables()
    train(tables, list(range(30)))
    with make_sender(tables, serving, settings=replace(TINY, skip_zero_embedding=True)) as sender:
        push(sender)
        tables["uid"].clear()  # lists nothing: the next push is a full one
        train(tables, list(range(30)), seed=1)
        original = serving.receiver.handle

        def zero_meanwhile(message):
            set_to_zero(tables, list(range(10, 25)))
            return original(message)

        serving.receiver.handle = zero_meanwhile
        assert push(sender).full
        serving.receiver.handle = original
        assert not push(sender).full
        assert content(serving.target.tables) == nonzero(tables)


@pytest.mark.parametrize("seed", range(3))
def test_serving_has_all_other_rows_after_any_mixture_of_training_pushes_and_failures(seed):
    chance = random.Random(seed)
    tables, serving = training_tables(), FlakyServing()
    sender = make_sender(tables, serving, settings=replace(TINY, skip_zero_embedding=True))
    try:
        for step in range(100):
            ids = chance.sample(range(40), 5)
            match chance.choices(["train", "zero", "erase", "push", "fail", "export"], [6, 6, 2, 8, 3, 1])[0]:
                case "train":
                    train(tables, ids, seed=step)
                case "zero":
                    set_to_zero(tables, ids)
                case "erase":
                    tables["uid"].erase(torch.tensor(ids))
                case "push":
                    sender.push_once()
                case "fail":
                    serving.fail = [chance.choice(["none", "before", "after"]) for _ in range(6)]
                case "export":
                    spared = training_tables()
                    for name, rows in nonzero(tables).items():
                        held = torch.tensor(list(rows), dtype=torch.int64)
                        spared[name].assign(held, tables[name].lookup(held))
                    serving.load_export(spared, 1, sender.sequence)
        serving.fail = []
        push(sender)
        assert content(serving.target.tables) == nonzero(tables)
    finally:
        sender.close()
        serving.close()
