"""merge_tensor_list and the soft choice of k."""

import numpy as np
import pytest
import torch

from monolith.model.layers import DCNType, MergeType, continuous_topk, gumbel_keys, merge_tensor_list, sample_subset
from tests.model.layers.layer_cases import normal
from tests.model.layers.reference import softmax

X = normal(2, 3, 4)


def test_values_of_the_types():
    assert (MergeType.CONCAT, MergeType.STACK, MergeType.NONE) == ("concat", "stack", None)
    assert (DCNType.Vector, DCNType.Matrix, DCNType.Mixed) == ("vector", "matrix", "mixed")


@pytest.mark.parametrize("given", [X, [X], list(X.unbind(1))], ids=["tensor", "list of one", "list"])
def test_features_merge_alike_however_they_come(given):
    assert torch.equal(merge_tensor_list(given, "stack"), X)
    assert torch.equal(merge_tensor_list(given, "concat"), X.reshape(2, 12))
    parts = merge_tensor_list(given, None)
    assert len(parts) == 3
    assert torch.equal(torch.stack(parts, 1), X)
    (kept,) = merge_tensor_list(given, "concat", keep_list=True)
    assert kept.shape == (2, 12)


def test_a_flat_tensor_needs_the_number_of_features():
    flat = X.reshape(2, 12)
    assert torch.equal(merge_tensor_list(flat, "stack", num_feature=3), X)
    assert merge_tensor_list(flat, "concat", num_feature=3) is flat
    assert [one.shape for one in merge_tensor_list(flat, None, num_feature=3)] == [(2, 4)] * 3
    assert merge_tensor_list(flat, "stack") is flat


def test_axis_and_errors():
    assert merge_tensor_list([X, X], "stack", axis=0).shape == (2, 2, 3, 4)
    with pytest.raises(ValueError, match="merge_type must be"):
        merge_tensor_list(X, "add")
    with pytest.raises(ValueError, match="must be"):
        merge_tensor_list(X[0, 0])


def test_continuous_topk_is_softmaxes_without_what_was_chosen():
    w = np.array([[1.0, 3.0, 2.0]])
    first = softmax(w / 0.5)
    shifted = w + np.log(1 - first)
    second = softmax(shifted / 0.5)
    steps = continuous_topk(torch.from_numpy(w), 2, 0.5, separate=True).numpy()
    np.testing.assert_allclose(steps, np.stack([first, second]), rtol=1e-9)
    np.testing.assert_allclose(continuous_topk(torch.from_numpy(w), 2, 0.5).numpy(), first + second, rtol=1e-9)


def test_sampled_subsets_have_k_elements_by_weight():
    torch.manual_seed(0)
    w = torch.log(torch.tensor([0.7, 0.2, 0.1])).expand(4000, 3)
    shares = torch.nn.functional.one_hot(gumbel_keys(w).argmax(1), 3).double().mean(0)
    np.testing.assert_allclose(shares.numpy(), [0.7, 0.2, 0.1], atol=0.03)
    np.testing.assert_allclose(sample_subset(w, 2).sum(1).numpy(), 2.0, rtol=1e-5)
