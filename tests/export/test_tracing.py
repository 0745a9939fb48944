"""What can be traced, and what is refused with a reason."""

import numpy as np
import pytest
import torch
from torch import nn

import monolith.model as mono
from monolith.data import Schema
from monolith.export import Export, load_export, trace_model, write_export
from monolith.model import make_plan, make_tables

SCHEMA = Schema.of(uid="int64", hour="int64", label="float32")


class Model(mono.MonolithModel):
    """Predicts with a function of the row of a user."""

    def __init__(self, predict):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.predict = predict

    def model_fn(self, features, mode):
        (user,) = self.lookup_embedding_slice(["uid"], slice_dim=4)
        pred = self.predict(self.layer(user), features)
        loss = self.layer(user).sum()
        return mono.EstimatorSpec(label=None, pred=pred, loss=None if mode == mono.PREDICT else loss)


def test_several_heads_keep_their_names_and_shapes(tmp_path):
    model = Model(lambda out, _: {"click": out[:, 0].sigmoid(), "both": out})
    plan = make_plan(model, SCHEMA)
    tables = make_tables(plan)
    rows = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    tables["uid"].assign(torch.tensor([1, 2, 3]), rows)
    path = write_export(
        tmp_path, 1, Export(model=model, plan=plan, tables=tables, schema=SCHEMA, generation=0, sequence=0)
    )
    served = load_export(path)
    assert [(spec.name, spec.shape) for spec in served.signature.outputs] == [("click", (-1,)), ("both", (-1, 2))]
    outputs = served.predict({"uid": np.array([3, 1])})
    expected = model.layer(rows[[2, 0]]).detach()
    np.testing.assert_allclose(outputs["both"], expected.numpy(), rtol=0, atol=1e-6)
    np.testing.assert_allclose(outputs["click"], expected[:, 0].sigmoid().numpy(), rtol=0, atol=1e-6)


def test_a_whole_number_column_can_be_read_too(tmp_path):
    """Also the ids themselves, beside being looked up; a constant of the model is part of the graph."""
    night = torch.tensor([0.5, 0.25])
    model = Model(lambda out, features: (out * night).sum(1) + (features["hour"] % 24) + features["uid"])
    plan = make_plan(model, SCHEMA)
    path = write_export(
        tmp_path, 1, Export(model=model, plan=plan, tables=make_tables(plan), schema=SCHEMA, generation=0, sequence=0)
    )
    served = load_export(path)
    assert [spec.name for spec in served.signature.inputs] == ["uid", "hour"]
    (found,) = served.predict({"uid": np.array([7, 8]), "hour": np.array([25, 3])}).values()
    bias = (model.layer.bias * night).sum().item()
    np.testing.assert_allclose(found, [bias + 1 + 7, bias + 3 + 8], rtol=0, atol=1e-5)


def test_a_prediction_without_a_batch_is_refused():
    model = Model(lambda out, _: out.mean())
    with pytest.raises(ValueError, match=r"output 'pred' must have one row per example, got shape \[\]"):
        trace_model(model, make_plan(model, SCHEMA), SCHEMA)


def test_a_model_that_works_for_one_size_of_batch_only_is_refused():
    model = Model(lambda out, _: out.sum(1).view(3) if len(out) == 3 else out.sum(1))
    with pytest.raises(ValueError, match="cannot be exported to ONNX"):
        trace_model(model, make_plan(model, SCHEMA), SCHEMA)


def test_weights_of_half_precision_are_refused(tmp_path):
    model = Model(lambda out, _: out.sum(1))
    plan = make_plan(model, SCHEMA)
    model.register_buffer("scale", torch.ones(1, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match="weight 'scale' is torch.bfloat16"):
        write_export(
            tmp_path,
            1,
            Export(model=model, plan=plan, tables=make_tables(plan), schema=SCHEMA, generation=0, sequence=0),
        )
    assert list(tmp_path.iterdir()) == []
