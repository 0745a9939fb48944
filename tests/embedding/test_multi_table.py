"""Many tables behind one call: the known figures, and mistakes that change nothing."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from monolith.embedding import HashTableConfigInstance, MultiTable, Segment, SgdOptimizer, TableConfig
from monolith.embedding.fused import fused_apply_gradient, fused_lookup
from monolith.errors import CorruptFileError
from monolith.native_training.test_utils import generate_test_hash_table_config


def make(**dims: int) -> MultiTable:
    sgd = SgdOptimizer(learning_rate=1.0)
    return MultiTable({name: TableConfig(name=name, segments=(Segment(dim, sgd),)) for name, dim in dims.items()})


def ids(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64)


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def filled() -> MultiTable:
    tables = make(slot0=1, slot1=2, slot2=2)
    tables.assign_add(
        {
            "slot0": (ids(0), rows([1])),
            "slot1": (ids(1), rows([2, 2])),
            "slot2": (ids(2, 3), rows([4, 4], [8, 8])),
        }
    )
    return tables


def test_assign_add_and_lookup() -> None:
    found = filled().lookup({"slot0": ids(0), "slot1": ids(1), "slot2": ids(2, 3)})
    assert {name: values.tolist() for name, values in found.items()} == {
        "slot0": [[1]],
        "slot1": [[2, 2]],
        "slot2": [[4, 4], [8, 8]],
    }


def test_apply_gradients() -> None:
    tables = make(slot0=1, slot1=2)
    tables.apply_gradients({"slot0": (ids(0), rows([2])), "slot1": (ids(1, 2), rows([1, 3], [2, 4]))})
    assert tables["slot0"].lookup(ids(0)).tolist() == [[-2]]
    assert tables["slot1"].lookup(ids(1, 2)).tolist() == [[-1, -3], [-2, -4]]


def test_save_and_restore_with_other_tables(tmp_path: Path) -> None:
    filled().save(tmp_path / "model")
    other = make(slot0=1, slot2=2, slot3=2)
    assert other.restore(tmp_path / "model") == ["slot3"]
    found = other.lookup({"slot0": ids(0), "slot2": ids(2, 3), "slot3": ids(1, 2)})
    assert found["slot0"].tolist() == [[1]]
    assert found["slot2"].tolist() == [[4, 4], [8, 8]]
    assert len(other["slot3"]) == 0


def test_restore_does_not_clear(tmp_path: Path) -> None:
    filled().save(tmp_path / "model")
    tables = make(slot0=1, slot1=2, slot2=2)
    tables.assign({"slot0": (ids(0, 5), rows([9], [9]))})
    tables.restore(tmp_path / "model")
    assert tables["slot0"].lookup(ids(0, 5)).tolist() == [[1], [9]]


def test_repeated_ids_without_lookup() -> None:
    tables = make(slot0=1, slot1=2)
    tables.apply_gradients({"slot1": (ids(2, 2), rows([1.1, 3.1], [2.2, 4.2]))})
    assert tables["slot1"].lookup(ids(2)).tolist()[0] == pytest.approx([-3.3, -7.3])
    assert tables["slot1"].lookup(ids(1)).tolist() == [[0, 0]]


def test_fused_lookup_of_one_shard() -> None:
    found = fused_lookup(filled(), ids(0, 1, 2, 3), [1, 1, 2], num_of_shards=1)
    assert found.embeddings.tolist() == [1, 2, 2, 4, 4, 8, 8]
    assert found.recv_splits.tolist() == [7]
    assert found.id_offsets.tolist() == [0, 1, 2, 4]
    assert found.emb_offsets.tolist() == [0, 1, 3, 7]


def test_fused_apply() -> None:
    tables = make(slot0=1, slot1=2)
    batch, sizes = ids(0, 1, 2), [1, 2]
    fused_apply_gradient(tables, batch, sizes, torch.tensor([2.0, 1, 3, 2, 4]), num_of_shards=1)
    found = fused_lookup(tables, batch, sizes, num_of_shards=1)
    assert found.embeddings.tolist() == [-2, -1, -3, -2, -4]
    assert found.id_offsets.tolist() == [0, 1, 3]
    assert found.emb_offsets.tolist() == [0, 1, 5]


@pytest.mark.parametrize("sum_repeated", [False, True])
def test_fused_apply_of_one_id_in_two_shards(sum_repeated: bool) -> None:
    tables = make(slot0=1, slot1=2)
    batch, sizes = ids(1, 1), [1, 0, 1, 0]
    fused_apply_gradient(tables, batch, sizes, torch.tensor([1.0, 2]), num_of_shards=2, sum_repeated=sum_repeated)
    found = fused_lookup(tables, batch, sizes, num_of_shards=2)
    assert found.embeddings.tolist() == [-3, -3]
    assert found.recv_splits.tolist() == [1, 1]


def test_features_of_equal_configuration_share_a_table() -> None:
    def config(dim: int) -> HashTableConfigInstance:
        return generate_test_hash_table_config(dim)

    tables, table_of = MultiTable.merged({"slot0": config(2), "slot1": config(2), "uid": config(4)})
    shared, alone = "e21904dd414d1780e5fc904866dc69c2", "9871d3a2c554b27151cacf1422eec048"
    assert table_of == {"slot0": shared, "slot1": shared, "uid": alone}
    assert tables.names == sorted([shared, alone])
    assert [tables[shared].dim, tables[alone].dim] == [2, 4]


def test_a_merged_table_is_restored_under_its_older_names(tmp_path: Path) -> None:
    old, _ = MultiTable.merged({"slot_1": generate_test_hash_table_config(2)})
    old.assign({name: (ids(5), torch.tensor([[1.0, 2]])) for name in old.names})
    old.save(tmp_path / "model")
    new, table_of = MultiTable.merged({"fc_slot_1": generate_test_hash_table_config(2)})
    assert table_of["fc_slot_1"] not in old.names
    assert new.restore(tmp_path / "model") == []
    assert new[table_of["fc_slot_1"]].lookup(ids(5)).tolist() == [[1, 2]]
    new.assign({table_of["fc_slot_1"]: (ids(5), torch.tensor([[3.0, 4]]))})
    new.save(tmp_path / "model")  # beside the older files
    again, _ = MultiTable.merged({"fc_slot_1": generate_test_hash_table_config(2)})
    again.restore(tmp_path / "model")
    assert again[table_of["fc_slot_1"]].lookup(ids(5)).tolist() == [[3, 4]]


def test_tables_stand_in_order_of_name_and_plans_split_by_it() -> None:
    tables = make(b=2, a=1)
    assert tables.names == ["a", "b"]
    plan = tables.plan(ids(1, 2, 3), [2, 1])
    plan.assign(torch.tensor([1.0, 2, 3, 4]))
    a, b = plan.split(plan.lookup())
    assert (a.tolist(), b.tolist()) == ([[1], [2]], [[3, 4]])
    assert (plan.num_ids, plan.num_unique) == (3, 3)


def test_nothing_is_not_a_mistake() -> None:
    tables = filled()
    assert tables.lookup({}) == {}
    for change in (tables.assign, tables.assign_add, tables.apply_gradients):
        assert change({}).inserted == 0


def test_reinitialize() -> None:
    tables = filled()
    assert tables.reinitialize("slot2", ids(2, 7), time=5).tolist() == [1, 0]
    assert tables["slot2"].lookup(ids(2, 3, 7)).tolist() == [[0, 0], [8, 8], [0, 0]]
    assert tables.reinitialize("none", ids(1, 2), time=5).tolist() == [-1, -1]


@pytest.mark.parametrize("sizes", [[1], [1, 1, 1], [-1, 3], [1, 2], [0, 1], [2**63 - 1, 2**63 - 1]])
def test_sizes_that_do_not_fit(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="size"):
        make(a=1, b=2).plan(ids(1, 2), sizes)


def test_sizes_that_wrap_around_to_the_number_of_ids() -> None:
    with pytest.raises(ValueError, match="9223372036854775807"):
        make(a=1, b=2, c=1).plan(ids(1, 2), [2**63 - 1, 2**63 - 1, 4])


def test_mistakes_name_the_table_and_change_nothing() -> None:
    tables = filled()
    before = tables.lookup({"slot1": ids(1, 7)})["slot1"]
    with pytest.raises(KeyError, match=r"'slot9'.*slot0, slot1, slot2"):
        tables.lookup({"slot9": ids(1)})
    with pytest.raises(ValueError, match=r"'slot1'.*1 x 2.*got 1 x 3"):
        tables.assign({"slot1": (ids(1), rows([1, 2, 3]))})
    with pytest.raises(ValueError, match=r"'slot1': the gradient of id 7 in row 1, column 0 is nan"):
        tables.apply_gradients({"slot0": (ids(0), rows([1])), "slot1": (ids(1, 7), rows([1, 2], [torch.nan, 1]))})
    with pytest.raises(ValueError, match=r"7 floats.*\(6,\)"):
        tables.plan(ids(0, 1, 2, 3), [1, 1, 2]).assign(torch.ones(6))
    assert torch.equal(tables.lookup({"slot1": ids(1, 7)})["slot1"], before)
    assert tables["slot0"].lookup(ids(0)).tolist() == [[1]]


def test_a_damaged_file_of_the_last_table_leaves_the_first_as_it_was(tmp_path: Path) -> None:
    filled().save(tmp_path / "model")
    path = tmp_path / "model.slot2-00000-of-00001"
    path.write_bytes(path.read_bytes()[:-1])
    tables = make(slot0=1, slot1=2, slot2=2)
    with pytest.raises(CorruptFileError, match="slot2"):
        tables.restore(tmp_path / "model")
    assert [len(table) for table in tables.tables.values()] == [0, 0, 0]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tables.restore(tmp_path / "nowhere")
