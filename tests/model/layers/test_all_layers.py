"""What holds for every layer: optimizers, snapshots, copies, settings, compilation."""

import copy
import warnings

import pytest
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map_only

from monolith.model import layers
from monolith.model.hyper_params import InstantiableParams
from tests.model.layers import layer_cases as cases

every = pytest.mark.parametrize("case", cases.ALL, ids=lambda case: case.name)
with_weights = pytest.mark.parametrize("case", cases.WITH_WEIGHTS, ids=lambda case: case.name)


def run(layer, case):
    return cases.total(layer(case.inputs))


@with_weights
@pytest.mark.parametrize("optimizer", ["Adagrad", "Adam", "SGD"])
def test_an_optimizer_made_before_the_first_input_trains_every_weight(case, optimizer):
    torch.manual_seed(1)  # first weights decide whether anything gets past a ReLU
    layer = case.make()
    before = list(layer.parameters())
    rule = getattr(torch.optim, optimizer)(layer.parameters(), lr=0.1)
    run(layer, case)  # as the dry run does
    start = copy.deepcopy(layer.state_dict())
    assert [id(one) for one in layer.parameters()] == [id(one) for one in before]
    (run(layer, case) + sum(layer.layer_losses())).backward()
    rule.step()
    for name, weight in layer.named_parameters():
        moved = not torch.equal(weight, start[name])
        # Where a gradient is 0, or everything that could move it is, a weight may stay.
        assert moved or weight.grad is None or not weight.grad.any(), name
    assert any(not torch.equal(weight, start[name]) for name, weight in layer.named_parameters())


def test_adagrads_first_accumulator_reaches_lazy_weights():
    layer = layers.Dense(2)
    rule = torch.optim.Adagrad(layer.parameters(), lr=1.0, initial_accumulator_value=0.5)
    layer(torch.ones(1, 3)).sum().backward()
    assert rule.state[layer.kernel]["sum"].tolist() == [[0.5, 0.5]] * 3
    kernel = layer.kernel.detach().clone()
    rule.step()
    torch.testing.assert_close(layer.kernel.detach(), kernel - 1 / 1.5**0.5)


@with_weights
def test_a_snapshot_restores_into_a_layer_that_has_not_run(case):
    layer = case.make()
    run(layer, case)
    layer.eval()
    other = case.make()
    other.load_state_dict(layer.state_dict())
    assert not any(is_lazy(one) for one in other.parameters())
    assert torch.equal(run(other.eval(), case), run(layer, case))


@every
def test_copies_have_weights_of_their_own(case):
    layer = case.make()
    early = copy.deepcopy(layer)
    run(layer, case).requires_grad_() if not list(layer.parameters()) else run(layer, case)
    late = copy.deepcopy(layer)  # after a forward pass, with its losses at hand
    late.eval(), layer.eval()
    assert torch.equal(run(late, case), run(layer, case))
    assert not {id(one) for one in layer.parameters()} & {id(one) for one in late.parameters()}
    run(early, case)
    assert [tuple(one.shape) for one in early.parameters()] == [tuple(one.shape) for one in layer.parameters()]


def test_a_model_and_its_optimizer_are_copied_together():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tower = layers.MLP([3, 1])
            self.optimizer = torch.optim.Adagrad(self.parameters(), lr=0.1, initial_accumulator_value=0.1)

    model = copy.deepcopy(Model())
    model.tower(torch.randn(4, 5)).sum().backward()
    model.optimizer.step()
    for weight in model.parameters():
        expected = (0.1 + weight.grad**2).expand_as(weight)
        torch.testing.assert_close(model.optimizer.state[weight]["sum"], expected)


@every
def test_settings_make_the_layer(case):
    made = case.make()
    params = type(made).params()
    assert isinstance(params, InstantiableParams)
    known = {name: value for name, value in made.get_config().items() if name in params}
    again = params.set(**known).instantiate()
    assert type(again) is type(made)
    assert again.name == made.name


@every
def test_the_configuration_makes_an_equal_layer(case):
    layer = case.make()
    run(layer, case)
    again = type(layer).from_config(layer.get_config())
    run(again, case)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(run(again.eval(), case), run(layer.eval(), case))


@pytest.mark.parametrize(
    "case",
    [case for case in cases.WITH_WEIGHTS if case.name.split("(")[0] in ("MLP", "LHUCTower", "CDot", "MMoE", "SNR")],
    ids=lambda case: case.name,
)
def test_after_the_first_run_a_layer_compiles_in_one_piece(case):
    layer = case.make().eval()
    expected = run(layer, case)
    torch._dynamo.reset()
    compiled = torch.compile(lambda inputs: cases.total(layer(inputs)), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(case.inputs), expected)


@every
def test_an_exported_layer_leaves_the_batch_free(case):
    layer = case.make()
    layer(case.inputs)
    batch = torch.export.Dim("batch")
    shapes = tree_map_only(torch.Tensor, lambda _: {0: batch}, case.inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(layer.eval(), (case.inputs,), dynamic_shapes=(shapes,))
    twice = tree_map_only(torch.Tensor, lambda one: torch.cat([one, one]), case.inputs)
    torch.testing.assert_close(cases.total(program.module()(twice)), cases.total(layer(twice)))


def test_the_name_is_the_class_in_small_letters_unless_given():
    assert layers.MLP([1]).name == "mlp"
    assert layers.MLP.params().set(output_dims=[8, 1], name="top").instantiate().name == "top"


def test_regularizers_of_layers_inside_add_up():
    layer = layers.MLP(
        [3, 2], kernel_regularizer=layers.regularizers.L2(0.5), bias_regularizer="l1", use_weight_norm=False
    )
    layer(torch.randn(4, 5))
    with torch.no_grad():
        layer.dense_0.bias.fill_(2.0)
    kernels = [layer.dense_0.kernel.detach().numpy(), layer.dense_1.kernel.detach().numpy()]
    expected = 0.5 * sum((kernel**2).sum() for kernel in kernels) + 0.01 * 3 * 2.0
    assert layer.regularization_loss().item() == pytest.approx(expected, rel=1e-5)
    assert layers.SumPooling().regularization_loss().item() == 0
