"""Products of all pairs of rows: the values, the gradients, and the same bits on every path."""

import pytest
import torch

from monolith._core import native
from monolith.model.layers.interaction.row_pairs import pair_products, pair_sums
from monolith.model.layers.joined_linear import JoinedLinear

SHAPES = [(5, 4, 3), (300, 27, 16), (2, 9, 8), (3, 8, 32), (4, 1, 8), (0, 4, 16)]
LEVELS = ["scalar", "avx2", "avx512"]


def reference_products(rows):
    left, right = torch.triu_indices(rows.shape[1], rows.shape[1], offset=1)
    return (rows[:, left] * rows[:, right]).sum(-1)


def value_and_gradient(function, rows, weights):
    rows = rows.clone().requires_grad_()
    value = function(rows)
    (value * weights).sum().backward()
    return value.detach(), rows.grad


@pytest.mark.parametrize("shape", SHAPES)
def test_products_and_their_sums_are_those_of_double_precision(shape):
    rows = torch.randn(shape)
    num_pairs = shape[1] * (shape[1] - 1) // 2
    for function, reference, weights in (
        (pair_products, reference_products, torch.randn(shape[0], num_pairs)),
        (pair_sums, lambda rows: reference_products(rows).sum(-1), torch.randn(shape[0])),
    ):
        value, gradient = value_and_gradient(function, rows, weights)
        expected, expected_gradient = value_and_gradient(reference, rows.double(), weights.double())
        torch.testing.assert_close(value, expected.float(), rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(gradient, expected_gradient.float(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("function", [pair_products, pair_sums])
@pytest.mark.parametrize("dim", [8, 12, 16, 32])
def test_every_instruction_set_gives_the_same_bits(function, dim):
    rows, seen = torch.randn(70, 11, dim), []
    for level in LEVELS[: LEVELS.index(native.best_simd_level()) + 1]:
        try:
            native.set_simd_level(level)
            seen.append(value_and_gradient(function, rows, torch.ones(())))
        finally:
            native.set_simd_level(native.best_simd_level())
    for value, gradient in seen:
        assert torch.equal(value, seen[0][0]) and torch.equal(gradient, seen[0][1])


def test_what_the_native_path_does_not_know_goes_through_torch():
    rows = torch.randn(3, 4, 5, dtype=torch.float64)
    torch.testing.assert_close(pair_products(rows), reference_products(rows))
    torch.testing.assert_close(pair_sums(rows), reference_products(rows).sum(-1))
    traced = torch.export.export(_Pairs(), (rows.float(),)).module()
    torch.testing.assert_close(traced(rows.float()), pair_products(rows.float()))


class _Pairs(torch.nn.Module):
    def forward(self, rows):
        return pair_products(rows)


def test_rows_that_are_not_three_dimensional_are_refused():
    with pytest.raises(ValueError, match=r"\[events, rows, dim\].*\(4, 3\)"):
        pair_sums(torch.zeros(4, 3))


def test_a_joined_layer_begins_and_learns_as_one_over_all_inputs():
    torch.manual_seed(5)
    joined = JoinedLinear([3, 2], 4)
    torch.manual_seed(5)
    whole = torch.nn.Linear(5, 4)
    left, right = torch.randn(6, 3, requires_grad=True), torch.randn(6, 2)
    joined([left, right]).square().sum().backward()
    expected_left = left.detach().clone().requires_grad_()
    whole(torch.cat([expected_left, right], dim=1)).square().sum().backward()
    torch.testing.assert_close(left.grad, expected_left.grad)
    torch.testing.assert_close(torch.cat([one.grad for one in joined.weights], dim=1), whole.weight.grad)
    torch.testing.assert_close(joined.bias.grad, whole.bias.grad)
    with pytest.raises(ValueError, match="2 inputs, got 1"):
        joined([left])
