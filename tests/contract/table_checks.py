"""What every table must do: each check takes an empty table of dim 4 that learns by SGD with learning rate 0.5."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from monolith.embedding.table_protocol import TableProtocol

DIM = 4
LEARNING_RATE = 0.5
EDGES = torch.tensor([0, -1, 1, 2**63 - 1, -(2**63), 1 << 48, (1 << 48) - 1])

Check = Callable[[TableProtocol], None]


def rows_of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).view(-1, 1).expand(-1, DIM).contiguous()


def check_unknown_ids_read_as_zero_and_get_no_row(table: TableProtocol) -> None:
    assert torch.equal(table.lookup(EDGES), torch.zeros(len(EDGES), DIM))
    assert len(table) == 0
    assert not table.contains(EDGES).any()


def check_assign_overwrites_and_the_last_value_wins(table: TableProtocol) -> None:
    table.assign(torch.tensor([5, 6, 5]), rows_of(1, 2, 3))
    assert torch.equal(table.lookup(torch.tensor([5, 6])), rows_of(3, 2))
    table.assign(torch.tensor([6]), rows_of(7))
    assert torch.equal(table.lookup(torch.tensor([5, 6])), rows_of(3, 7))


def check_assign_add_adds_up(table: TableProtocol) -> None:
    table.assign_add(torch.tensor([3, 3, 4]), rows_of(1, 1, 5))
    table.assign_add(torch.tensor([4]), rows_of(-1))
    assert torch.equal(table.lookup(torch.tensor([3, 4])), rows_of(2, 4))


def check_gradients_of_a_repeated_id_are_summed(table: TableProtocol) -> None:
    table.assign(torch.tensor([1]), rows_of(10))
    table.apply_gradients(torch.tensor([1, 2, 1]), rows_of(2, 8, 4))
    assert torch.equal(table.lookup(torch.tensor([1, 2])), rows_of(10 - 3, -4))


def check_erase_removes_rows(table: TableProtocol) -> None:
    table.assign(torch.tensor([1, 2, 3]), rows_of(1, 2, 3))
    assert table.erase(torch.tensor([2, 9, 2])) == 1
    assert table.contains(torch.tensor([1, 2, 3])).tolist() == [True, False, True]
    assert torch.equal(table.lookup(torch.tensor([1, 2, 3])), rows_of(1, 0, 3))
    assert len(table) == 2


def check_an_erased_id_starts_afresh(table: TableProtocol) -> None:
    table.assign(torch.tensor([1]), rows_of(9))
    table.erase(torch.tensor([1]))
    table.assign_add(torch.tensor([1]), rows_of(2))
    assert torch.equal(table.lookup(torch.tensor([1])), rows_of(2))


def check_rows_come_in_the_order_asked(table: TableProtocol) -> None:
    ids = torch.arange(100)
    table.assign(ids, ids.float().view(-1, 1).expand(-1, DIM).contiguous())
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0)).repeat(3)
    assert torch.equal(table.lookup(order)[:, 2], order.float())
    assert len(table) == 100


def check_an_empty_batch_does_nothing(table: TableProtocol) -> None:
    none, no_rows = torch.empty(0, dtype=torch.int64), torch.empty(0, DIM)
    table.assign(none, no_rows)
    table.assign_add(none, no_rows)
    table.apply_gradients(none, no_rows)
    assert table.erase(none) == 0
    assert table.lookup(none).shape == (0, DIM)
    assert table.contains(none).shape == (0,)
    assert len(table) == 0


def check_every_int64_is_an_id(table: TableProtocol) -> None:
    values = torch.arange(len(EDGES) * DIM).view(-1, DIM).float()
    table.assign(EDGES, values)
    assert torch.equal(table.lookup(EDGES), values)
    assert len(table) == len(EDGES)
    table.apply_gradients(EDGES, values)
    assert torch.equal(table.lookup(EDGES), values - LEARNING_RATE * values)
    assert table.erase(EDGES) == len(EDGES)
    assert len(table) == 0


def check_results_do_not_alias(table: TableProtocol) -> None:
    values = rows_of(1)
    table.assign(torch.tensor([1]), values)
    values.fill_(9)
    table.lookup(torch.tensor([1])).fill_(9)
    assert torch.equal(table.lookup(torch.tensor([1])), rows_of(1))


def check_wrong_dtypes_are_type_errors(table: TableProtocol) -> None:
    ids = torch.tensor([1])
    for call in (table.assign, table.assign_add, table.apply_gradients):
        with pytest.raises(TypeError, match="int32"):
            call(ids.int(), rows_of(1))
        with pytest.raises(TypeError, match="float64"):
            call(ids, rows_of(1).double())
        with pytest.raises(TypeError, match=r"2 dimensions.*\(4,\)"):
            call(ids, rows_of(1)[0])
    for read in (table.lookup, table.contains, table.erase):
        with pytest.raises(TypeError, match="float32.*long"):
            read(ids.float())
    assert len(table) == 0


def check_wrong_sizes_are_value_errors(table: TableProtocol) -> None:
    ids = torch.tensor([1, 2])
    for call in (table.assign, table.assign_add, table.apply_gradients):
        with pytest.raises(ValueError, match="2 x 4"):
            call(ids, rows_of(1, 2, 3))
        with pytest.raises(ValueError, match="2 x 4"):
            call(ids, torch.ones(2, DIM + 1))
    assert len(table) == 0


def check_a_value_that_is_not_finite_changes_nothing(table: TableProtocol) -> None:
    ids = torch.arange(50)
    table.assign(ids, torch.ones(50, DIM))
    for wrong in (float("nan"), float("inf"), -float("inf")):
        values = torch.ones(60, DIM)
        values[37, 3] = wrong
        for call in (table.assign, table.assign_add, table.apply_gradients):
            with pytest.raises(ValueError, match=f"of id 37 in row 37, column 3 is {wrong}; nothing was changed"):
                call(torch.arange(60), values)
    assert torch.equal(table.lookup(ids), torch.ones(50, DIM))
    assert len(table) == 50


def check_a_row_that_would_become_infinite_keeps_its_value(table: TableProtocol) -> None:
    table.assign(torch.tensor([1, 2]), rows_of(3e38, 1))
    for call, value in ((table.assign_add, 3e38), (table.apply_gradients, -3e38)):
        with pytest.raises(ValueError, match="the row of id 1 .*keeps its value"):
            call(torch.tensor([2, 1, 1, 3]), rows_of(0, value, value, 0))
        assert torch.equal(table.lookup(torch.tensor([1, 2])), rows_of(3e38, 1))
    assert table.contains(torch.tensor([3])).all()


CHECKS: list[Check] = [check for name, check in sorted(globals().items()) if name.startswith("check_")]
