"""Layers without widths inside a MonolithModel: dry run, training, going on after a stop, export."""

import copy

import numpy as np
import pytest
import torch
from torch.nn.parameter import is_lazy

import monolith as mono
from monolith.data import EventLogSource, Schema
from monolith.export import Export, load_export, trace_model, write_export
from monolith.model import Lookup, dense, make_plan, make_tables
from monolith.model.layers import DCN, MLP, GroupInt, MMoE, SeNet
from monolith.model.losses import get_sigmoid_loss_and_pred
from tests.model.movie_model import write_movie_log
from tests.train.recorder import Recorder

SCHEMA = Schema.of(uid="int64", mov="int64", label="float32")


class Layered(mono.MonolithModel):
    """Layers that have no width when the optimizer is made."""

    def __init__(self, params):
        super().__init__(params)
        self.senet, self.pairs = SeNet(2, 2), GroupInt()
        self.dcn = DCN(2, use_dropout=True)
        self.tasks = (
            MMoE.params().set(num_tasks=2, expert_output_dims=[4], num_experts=2, gate_type="topk").instantiate()
        )
        self.tower = MLP([8, 1], "prelu", kernel_regularizer="l2", enable_batch_normalization=True)
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.05, initial_accumulator_value=0.1)

    def input_fn(self, mode):
        return EventLogSource(self.params["log"], batch_size=64)

    def model_fn(self, features, mode):
        user, movie = self.lookup_embedding_slice(["uid", "mov"], slice_name="vec", slice_dim=3)
        crossed = self.dcn(torch.cat([self.senet([user, movie]), self.pairs(([user], [movie]))], dim=1))
        logit = self.tower(torch.cat(self.tasks(crossed), dim=1))
        loss, pred = get_sigmoid_loss_and_pred("like", logit, features.get("label"), mode=mode)
        self.add_loss([*self.tasks.layer_losses(), self.tower.regularization_loss()])
        return mono.EstimatorSpec(label=features.get("label"), pred=pred, loss=loss, optimizer=self.optimizer)


def test_the_dry_run_gives_weights_their_shape_and_leaves_no_other_trace():
    model = Layered({})
    held = [id(one) for one in model.parameters()]
    assert any(is_lazy(one) for one in model.parameters())
    make_plan(model, SCHEMA)
    assert [id(one) for one in model.parameters()] == held
    assert not any(is_lazy(one) for one in [*model.parameters(), *model.buffers()])
    averages = {name: value for name, value in model.named_buffers() if "moving" in name}
    assert len(averages) == 4
    for name, value in averages.items():
        assert (value == (1.0 if "variance" in name else 0.0)).all(), name
    for weight, state in model.optimizer.state.items():
        assert torch.equal(state["sum"], torch.full_like(weight, 0.1))
    copy.deepcopy(model)


def train(model_dir, log, stop_after=None):
    hook = Recorder(stop_after)
    settings = mono.RunConfig(model_dir=model_dir, log_step_count_steps=0)
    torch.manual_seed(0)
    mono.Estimator(Layered, settings, params={"log": str(log)}).train(hooks=[hook])
    return hook


@pytest.mark.usefixtures("one_thread")
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path):
    write_movie_log(tmp_path / "log", 64 * 12)
    straight = train(tmp_path / "straight", tmp_path / "log")
    first = train(tmp_path / "cut", tmp_path / "log", stop_after=5)
    second = train(tmp_path / "cut", tmp_path / "log")
    assert second.first_step == 5
    assert first.losses + second.losses == straight.losses
    assert second.rows == straight.rows


def test_an_exported_model_predicts_what_torch_does(tmp_path):
    model = Layered({})
    plan = make_plan(model, SCHEMA)
    tables = make_tables(plan)
    for table in tables.tables.values():
        table.assign(torch.arange(50), torch.randn(50, table.dim))
    graph = trace_model(model, plan, SCHEMA)
    path = write_export(
        tmp_path, 1, Export(schema=SCHEMA, model=model, plan=plan, tables=tables, graph=graph, generation=1, sequence=0)
    )
    columns = {"uid": np.arange(7), "mov": np.arange(20, 27)}
    (served,) = load_export(path).predict(columns).values()
    features = {name: torch.from_numpy(column) for name, column in columns.items()}
    with torch.no_grad():
        (expected,) = dense(model.eval(), Lookup(plan, tables).pull(features).slices, features).values()
    np.testing.assert_allclose(served, expected.numpy(), rtol=0, atol=1e-6)
