"""Exports without rows of zeros: a lookup reads zeros all the same, and a server keeps it so."""

import json

import numpy as np
import pytest
import torch

from monolith.delta.serving_tables import config_from_json
from monolith.embedding import FixedR8Compressor, Fp16Compressor
from monolith.export import load_export
from monolith.export.description import Description
from tests.export.movie import eager, export, request, trained

ZEROS = torch.tensor([0, 3, 17, 199])


@pytest.fixture
def parts():
    model, plan, tables = trained()
    for table in tables.tables.values():
        table.assign(ZEROS, torch.zeros(len(ZEROS), table.dim))
    tables["uid"].assign(torch.tensor([5]), torch.tensor([[-0.0] * 6]))
    # One weight alone keeps a row, unless a compressor makes a zero of it.
    tables["mov"].assign(torch.tensor([5]), torch.tensor([[0.0] * 6 + [1e-30]]))
    return {"model": model, "plan": plan, "tables": tables}


@pytest.mark.parametrize("compressor", [None, Fp16Compressor(), FixedR8Compressor(4.0)])
def test_rows_of_zeros_are_left_out_and_predictions_are_the_same(tmp_path, parts, compressor):
    compressors = {} if compressor is None else dict.fromkeys(("mov", "uid"), compressor)
    path = export(tmp_path, 1, **parts, compressors=compressors, skip_zero_embedding=True)
    left = {"mov": 196 if compressor is None else 195, "uid": 195}
    whole, spared = load_export(export(tmp_path, 2, **parts, compressors=compressors)), load_export(path)
    assert {name: len(table) for name, table in whole.tables.tables.items()} == {"mov": 200, "uid": 200}
    assert {name: len(table) for name, table in spared.tables.tables.items()} == left
    tables = json.loads((path / "model.json").read_text())["tables"]
    assert {name: table["num_rows"] for name, table in tables.items()} == left
    ids = torch.arange(200)
    for name, table in spared.tables.tables.items():
        assert not table.contains(ZEROS).any()
        assert torch.equal(table.lookup(ids), whole.tables[name].lookup(ids))
    columns = request(500)
    (ours,), (theirs,) = spared.predict(columns).values(), whole.predict(columns).values()
    np.testing.assert_array_equal(ours, theirs)
    if compressor is None:
        np.testing.assert_allclose(ours, eager(**parts, columns=columns), rtol=0, atol=1e-6)


def test_a_row_that_becomes_zero_goes_and_one_that_is_trained_comes(tmp_path, parts):
    served = load_export(export(tmp_path, 1, **parts, skip_zero_embedding=True))
    ids = torch.tensor([3, 40])
    before = len(served.tables["uid"])
    served.apply_rows("uid", ids, torch.tensor([[1.0] * 6, [0.0] * 6]))
    assert served.tables["uid"].contains(ids).tolist() == [True, False]
    assert served.tables["uid"].lookup(ids).tolist() == [[1.0] * 6, [0.0] * 6]
    assert len(served.tables["uid"]) == before
    served.apply_rows("uid", ids, torch.tensor([[0.0] * 6, [2.0] * 6]))
    assert served.tables["uid"].contains(ids).tolist() == [False, True]


def test_unless_asked_nothing_is_left_out(tmp_path, parts):
    served = load_export(export(tmp_path, 1, **parts))
    assert served.tables["uid"].contains(ZEROS).all()
    served.apply_rows("uid", torch.tensor([40]), torch.zeros(1, 6))
    assert served.tables["uid"].contains(torch.tensor([40])).all()


def test_exports_that_do_not_say_leave_out_nothing_and_nonsense_is_refused(tmp_path, parts):
    fields = Description.read(export(tmp_path, 1, **parts, skip_zero_embedding=True)).tables["uid"]
    assert config_from_json("uid", fields).skip_zero_embedding
    without = {name: value for name, value in fields.items() if name != "skip_zero_embedding"}
    assert not config_from_json("uid", without).skip_zero_embedding
    with pytest.raises(ValueError, match="'uid': skip_zero_embedding must be true or false, got 'no'"):
        config_from_json("uid", {**fields, "skip_zero_embedding": "no"})
