"""Clipping of gradients."""

import math

import pytest
import torch

from monolith.optim import clip_by_global_norm, clip_by_norm, clip_by_value


def gradients():
    return [torch.tensor([-3.0, 0.0, 0.0]), torch.tensor([4.0, 0.0, 0.0])]


def as_lists(tensors):
    return [tensor.tolist() for tensor in tensors]


def test_tensors_are_scaled_to_the_norm():
    inputs = gradients()
    clipped, norm = clip_by_global_norm(inputs, 4.0)
    torch.testing.assert_close(clipped, [torch.tensor([-2.4, 0, 0]), torch.tensor([3.2, 0, 0])])
    assert norm.item() == 5.0
    assert as_lists(inputs) == as_lists(gradients())


@pytest.mark.parametrize("clip_norm", [5.0, 6.0, math.inf])
def test_small_gradients_are_left_alone(clip_norm):
    clipped, norm = clip_by_global_norm(gradients(), clip_norm)
    assert as_lists(clipped) == as_lists(gradients())
    assert norm.item() == 5.0


@pytest.mark.parametrize("clip_norm", [0.0, 4.0])
def test_zero_stays_zero(clip_norm):
    clipped, norm = clip_by_global_norm([torch.zeros(3), torch.zeros(2, 2)], clip_norm)
    assert not any(tensor.any() for tensor in clipped)
    assert norm.item() == 0.0


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_norm_that_is_not_finite_gives_nan(bad):
    clipped, norm = clip_by_global_norm([torch.tensor([1.0, bad]), torch.tensor([2.0])], 4.0)
    assert all(tensor.isnan().all() for tensor in clipped)
    assert not norm.isfinite()


def test_a_known_norm_is_used():
    clipped, norm = clip_by_global_norm(gradients(), 4.0, use_norm=torch.tensor(8.0))
    assert as_lists(clipped) == [[-1.5, 0, 0], [2.0, 0, 0]]
    assert norm.item() == 8.0
    assert as_lists(clip_by_global_norm(gradients(), 4.0, use_norm=3.0)[0]) == as_lists(gradients())


def test_empty_list():
    clipped, norm = clip_by_global_norm([], 4.0)
    assert clipped == []
    assert norm == 0


def test_each_tensor_by_itself():
    inputs = gradients()
    torch.testing.assert_close(clip_by_norm(inputs, 3.0), [torch.tensor([-3.0, 0, 0]), torch.tensor([3.0, 0, 0])])
    assert as_lists(inputs) == as_lists(gradients())


def test_values_are_clamped():
    inputs = gradients()
    assert as_lists(clip_by_value(inputs, 3.5)) == [[-3.0, 0, 0], [3.5, 0, 0]]
    assert as_lists(inputs) == as_lists(gradients())


@pytest.mark.parametrize("clip", [clip_by_global_norm, clip_by_norm, clip_by_value])
def test_bad_arguments(clip):
    with pytest.raises(TypeError, match="t_list should be a list"):
        clip(torch.zeros(3), 1.0)
    for bound in (-1.0, math.nan):
        with pytest.raises(ValueError, match="must not be negative"):
            clip(gradients(), bound)
