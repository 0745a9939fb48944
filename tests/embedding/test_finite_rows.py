"""NaN and infinity: refused at every door to a row, and a step that would make them leaves the row as it was."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from monolith import HashEmbedding
from monolith._core import native
from monolith.embedding import (
    AdagradOptimizer,
    AdamOptimizer,
    BatchSoftmaxOptimizer,
    Bf16Compressor,
    DynamicWdAdagradOptimizer,
    Fp16Compressor,
    MovingAverageOptimizer,
    MultiTable,
    Optimizer,
    Segment,
    SgdOptimizer,
    Table,
    TableConfig,
    entry,
)
from monolith.embedding.fused import fused_apply_gradient
from monolith.embedding.tensor_checks import check_finite

HUGE = 3e38
WRONG = (float("nan"), float("inf"), -float("inf"))
# Of the last two, no gradient makes a row infinite: the one averages, the other looks only at the step.
OPTIMIZERS = [
    one
    for name in entry.__all__
    if isinstance(one := getattr(entry, name), type)
    and issubclass(one, Optimizer)
    and hasattr(one, "kind")
    and one not in (MovingAverageOptimizer, BatchSoftmaxOptimizer)
]


def make_table(*optimizers: Optimizer, dim: int = 5, name: str = "movie", **settings: object) -> Table:
    segments = tuple(Segment(dim, one) for one in optimizers or [SgdOptimizer(learning_rate=1.0)])
    return Table(TableConfig(name=name, segments=segments, **settings))  # type: ignore[arg-type]


def rows(*values: float, dim: int = 5) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).view(-1, 1).expand(-1, dim).contiguous()


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    native.set_num_threads(request.param)
    yield request.param
    native.set_num_threads(0)


DOORS: list[Callable[[Table, Tensor, Tensor], object]] = [
    lambda table, ids, values: table.assign(ids, values),
    lambda table, ids, values: table.assign_add(ids, values),
    lambda table, ids, values: table.apply_gradients(ids, values),
    lambda table, ids, values: table.plan(ids).apply_gradients(values),
]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("door", DOORS, ids=["assign", "assign_add", "apply_gradients", "plan"])
def test_a_value_that_is_not_finite_is_refused_with_table_id_and_value(
    door: Callable[[Table, Tensor, Tensor], object], wrong: float
) -> None:
    table = make_table()
    table.assign(torch.tensor([1, 2]), rows(1, 2), time=9)
    before = table.lookup_entry(torch.tensor([1, 2]))
    values = rows(5, 6, 7)
    values[2, 4] = wrong
    with pytest.raises(
        ValueError, match=rf"table 'movie': the \w+ of id -3 in row 2, column 4 is {wrong}; nothing was"
    ):
        door(table, torch.tensor([1, 1, -3]), values)
    assert table.lookup_entry(torch.tensor([1, 2])) == before
    assert len(table) == 2


@pytest.mark.parametrize("method", ["assign", "assign_add", "apply_gradients"])
def test_of_many_tables_none_changes(method: str) -> None:
    configs = {name: TableConfig(name=name, segments=(Segment(5, SgdOptimizer()),)) for name in ("item", "user")}
    tables = MultiTable(configs)
    batch = {"item": (torch.tensor([1]), rows(1)), "user": (torch.tensor([8, 9]), rows(1, float("nan")))}
    with pytest.raises(ValueError, match=r"table 'user': the \w+ of id 9 in row 1, column 0 is nan"):
        getattr(tables, method)(batch)
    assert len(tables["item"]) == len(tables["user"]) == 0


def test_unsummed_gradients_of_a_batch_are_named_by_their_id() -> None:
    embedding = HashEmbedding(2, name="uid")
    out = embedding(torch.tensor([5, 5, 6]))
    out.backward(torch.tensor([[1.0, 1.0], [1.0, 1.0], [float("inf"), 1.0]]))
    with pytest.raises(ValueError, match="table 'uid': the gradient of id 6 .* is inf"):
        embedding.step()


def test_check_finite_is_for_those_who_apply_later() -> None:
    check_finite("movie", torch.tensor([7]), rows(HUGE))
    check_finite("movie", torch.empty(0, dtype=torch.int64), torch.empty(0, 5))
    with pytest.raises(ValueError, match="table 'movie': the value of id 8 in row 1, column 0 is nan; nothing was"):
        check_finite("movie", torch.tensor([7, 8]), rows(1, float("nan")))


def test_first_not_finite_finds_the_first_in_any_piece() -> None:
    values = torch.zeros(200_000)
    assert native.first_not_finite(values) == len(values)
    for place in (199_999, 131_072, 65_535, 0):
        values[place] = float("-inf")
        assert native.first_not_finite(values) == place


@pytest.mark.parametrize("dim", [1, 7, 8, 16, 35])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda one: one.kind)
def test_a_step_that_would_ruin_a_row_leaves_it_and_steps_the_others(
    optimizer: type[Optimizer], dim: int, simd_level: str
) -> None:
    one = optimizer(learning_rate=10.0)
    # Rows with one segment are stepped several at a time, others one by one.
    check_that_a_ruined_row_stays(dim, one)
    check_that_a_ruined_row_stays(dim, SgdOptimizer(learning_rate=1.0), one)


def check_that_a_ruined_row_stays(dim: int, *optimizers: Optimizer) -> None:
    width = dim * len(optimizers)

    def trained() -> Table:
        table = make_table(*optimizers, dim=dim)
        for step in range(3):
            gradients = torch.randn(3, width, generator=torch.Generator().manual_seed(step))
            table.apply_gradients(torch.tensor([1, 2, 3]), gradients, global_step=step, time=step)
        return table

    table, expected = trained(), trained()
    gradients = torch.ones(3, width)
    gradients[1, -1] = HUGE
    with pytest.raises(
        ValueError, match="table 'movie': the step would make the row of id 2 NaN or infinite; it keeps"
    ):
        table.apply_gradients(torch.tensor([1, 2, 3]), gradients, global_step=3, time=3)
    before = expected.lookup(torch.tensor([2]))
    expected.apply_gradients(torch.tensor([1, 3]), gradients[[0, 2]], global_step=3, time=3)
    assert torch.equal(table.lookup(torch.tensor([2])), before)
    found, wanted = (one.native.lookup_entries(torch.tensor([1, 2, 3])) for one in (table, expected))
    assert [one.weights for one in found] == [one.weights for one in wanted]
    assert [one.state for one in found] == [one.state for one in wanted]
    # It goes on from there.
    for one in (table, expected):
        one.apply_gradients(torch.tensor([2]), torch.ones(1, width), global_step=4, time=4)
    assert table.lookup_entry(torch.tensor([2])) == expected.lookup_entry(torch.tensor([2]))


def test_the_error_names_the_same_id_whatever_the_threads(threads: int) -> None:
    table = make_table(AdamOptimizer(learning_rate=0.1))
    ids = torch.arange(20_000)
    gradients = torch.ones(len(ids), 5)
    gradients[[11_000, 13_000, 19_000]] = 1e20
    with pytest.raises(ValueError, match="row of id (11000|13000|19000) .* as do 2 others") as error:
        table.apply_gradients(ids, gradients)
    assert len(table) == len(ids)
    assert table.lookup(torch.tensor([11_000, 13_000, 19_000])).eq(0).all()
    assert table.lookup(torch.tensor([0, 10_999, 19_999])).ne(0).all()
    first = native.BatchPlan(table.native, ids, True)
    order = torch.empty(len(ids), dtype=torch.int64)
    first.write_ids(order)
    named = next(one for one in order.tolist() if one in (11_000, 13_000, 19_000))
    assert f"id {named} " in str(error.value)


@pytest.mark.parametrize("sum_repeated", [True, False])
def test_a_repeated_id_keeps_what_it_was_before_the_batch(sum_repeated: bool) -> None:
    table = make_table()
    table.assign(torch.tensor([1]), rows(4))
    with pytest.raises(ValueError, match="the row of id 1 NaN or infinite"):
        table.apply_gradients(torch.tensor([1, 1, 1]), rows(1, HUGE, HUGE), sum_repeated=sum_repeated)
    assert torch.equal(table.lookup(torch.tensor([1])), rows(4))


def test_adding_up_to_infinity_keeps_the_row() -> None:
    table = make_table()
    with pytest.raises(ValueError, match="adding would make the row of id 1 NaN or infinite; it keeps its value"):
        table.assign_add(torch.tensor([1, 2, 1]), rows(HUGE, 5, HUGE))
    assert torch.equal(table.lookup(torch.tensor([1, 2])), rows(0, 5))


def test_of_many_tables_all_are_stepped_but_for_the_ruined_row() -> None:
    sgd = SgdOptimizer(learning_rate=1.0)
    tables = MultiTable({name: TableConfig(name=name, segments=(Segment(5, sgd),)) for name in "abc"})
    ids = torch.tensor([1])
    tables.assign({name: (ids, rows(-HUGE)) for name in "bc"})
    batch = {"a": (ids, rows(1)), "b": (ids, rows(HUGE)), "c": (ids, rows(HUGE))}
    with pytest.raises(ValueError, match="table 'b': the step would make the row of id 1"):
        tables.apply_gradients(batch)
    assert torch.equal(tables["a"].lookup(ids), rows(-1))
    assert torch.equal(tables["b"].lookup(ids), rows(-HUGE))
    tables.assign({"a": (ids, rows(0)), "c": (ids, rows(0))})
    with pytest.raises(ValueError, match="table 'b': the step would make the row of id 1"):
        fused_apply_gradient(tables, torch.tensor([1, 1, 1]), [1, 1, 1], rows(HUGE, HUGE, 1).view(-1), 1)
    assert torch.equal(tables["a"].lookup(ids), rows(-HUGE))
    assert torch.equal(tables["c"].lookup(ids), rows(-1))


def test_a_module_drops_the_gradients_of_a_step_that_ruined_a_row() -> None:
    embedding = HashEmbedding(1, name="uid", optimizer=SgdOptimizer(learning_rate=1.0))
    embedding.table.assign(torch.tensor([1, 2]), torch.tensor([[0.0], [-HUGE]]))
    embedding(torch.tensor([1, 2])).backward(torch.tensor([[1.0], [HUGE]]))
    with pytest.raises(ValueError, match="table 'uid': the step would make the row of id 2"):
        embedding.step()
    embedding.step()  # there is nothing left to step
    assert embedding.table.lookup(torch.tensor([1, 2])).tolist() == [[-1.0], pytest.approx([-HUGE])]
    assert embedding.global_step == 2


@pytest.mark.parametrize("name", ["weights", "optimizer_state"])
def test_load_state_dict_refuses_and_keeps_its_rows(name: str) -> None:
    def module(value: float) -> HashEmbedding:
        embedding = HashEmbedding(2, name="uid", optimizer=AdagradOptimizer())
        embedding.table.assign(torch.tensor([1, 2]), torch.full((2, 2), value))
        return embedding

    embedding, saved = module(1.0), module(2.0).state_dict()
    saved[name].view(torch.float32)[1, 1] = float("inf")
    what = "weight 1" if name == "weights" else "its optimizer's number 1"
    with pytest.raises(RuntimeError, match=f"table 'uid': of the row of id 2, {what} is inf; nothing was changed"):
        embedding.load_state_dict(saved)
    assert embedding.table.lookup(torch.tensor([1, 2])).eq(1).all()


def test_bits_of_a_step_number_are_no_number() -> None:
    step = 0x7F800000  # as a float: infinity
    optimizers = DynamicWdAdagradOptimizer(learning_rate=0.1), SgdOptimizer()
    embedding = HashEmbedding.from_config(
        TableConfig(name="uid", segments=tuple(Segment(3, optimizer) for optimizer in optimizers))
    )
    embedding.table.apply_gradients(torch.tensor([1]), torch.ones(1, 6), global_step=step)
    other = HashEmbedding.from_config(embedding.table.config)
    other.load_state_dict(embedding.state_dict())
    assert other.table.lookup_entry(torch.tensor([1])) == embedding.table.lookup_entry(torch.tensor([1]))


@pytest.mark.parametrize(("compressor", "largest"), [(Fp16Compressor(), 65504.0), (Bf16Compressor(), 3.3895314e38)])
def test_a_serving_row_holds_the_largest_number_it_can(compressor: entry.Compressor, largest: float) -> None:
    segment = Segment(2, SgdOptimizer(), compressor=compressor)
    table = Table(TableConfig(name="movie", segments=(segment,), serving=True))
    table.assign(torch.tensor([1]), torch.tensor([[3.4e38, -3.4e38]]))
    assert table.lookup(torch.tensor([1])).tolist()[0] == pytest.approx([largest, -largest])
    table.assign_add(torch.tensor([1]), torch.tensor([[1e6, -1e6]]))
    assert table.lookup(torch.tensor([1])).isfinite().all()
