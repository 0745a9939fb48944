"""Pooling against NumPy, its gradients, the combiners and the reductions with their known figures."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from monolith._core import native
from monolith.embedding.combiners import (
    FirstN,
    ReduceMean,
    ReduceSum,
    Sqrtn,
    first_n,
    fused_reduce_sum_and_split,
    pool,
    pool_unique,
    reduce_mean,
    reduce_sqrtn,
    reduce_sum,
)
from monolith.tensors import Ragged

KINDS = ["sum", "mean", "sqrtn"]


def splits_of(lengths):
    return torch.tensor(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def numpy_pool(values, lengths, kind):
    """Pool in float64, bag by bag."""
    out = np.zeros((len(lengths), values.shape[1]))
    start = 0
    for bag, count in enumerate(lengths):
        total = values[start : start + count].astype(np.float64).sum(axis=0)
        out[bag] = total / {"sum": 1, "mean": max(count, 1), "sqrtn": np.sqrt(max(count, 1))}[kind]
        start += count
    return out


bags = st.tuples(
    st.lists(st.integers(0, 6), max_size=12), st.integers(1, 140), st.sampled_from(KINDS), st.integers(0, 2**32 - 1)
)


@settings(deadline=None)
@given(bags, st.sampled_from([torch.float32, torch.float64]))
def test_pool_matches_numpy(case, dtype):
    lengths, dim, kind, seed = case
    values = torch.tensor(np.random.default_rng(seed).standard_normal((sum(lengths), dim)), dtype=dtype)
    pooled = pool(values, splits_of(lengths), kind)
    assert pooled.dtype == dtype
    expected = numpy_pool(values.numpy(), lengths, kind)
    np.testing.assert_allclose(pooled.numpy(), expected, rtol=1e-5, atol=1e-5)


@settings(deadline=None)
@given(bags, st.integers(1, 9))
def test_pool_unique_is_pool_of_gathered_rows(case, num_rows):
    lengths, dim, kind, seed = case
    rng = np.random.default_rng(seed)
    inverse = torch.tensor(rng.integers(0, num_rows, sum(lengths)))
    rows = torch.tensor(rng.standard_normal((num_rows, dim)), dtype=torch.float32, requires_grad=True)
    weight = torch.tensor(rng.standard_normal((len(lengths), dim)), dtype=torch.float32)
    splits = splits_of(lengths)
    fused = pool_unique(rows, inverse, splits, kind)
    assert torch.equal(fused, pool(rows[inverse], splits, kind))
    (fused * weight).sum().backward()
    expected = np.zeros((num_rows, dim))
    bag_of = np.repeat(np.arange(len(lengths)), lengths)
    count = np.asarray(lengths, dtype=np.float64)[bag_of]
    scale = {"sum": np.ones_like(count), "mean": count, "sqrtn": np.sqrt(count)}[kind]
    np.add.at(expected, inverse.numpy(), weight.numpy()[bag_of] / scale[:, None])
    np.testing.assert_allclose(rows.grad.numpy(), expected, rtol=1e-4, atol=1e-5)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(1, 9), st.sampled_from(KINDS))
def test_gradients_match_finite_differences(lengths, dim, kind):
    values = torch.randn(sum(lengths), dim, dtype=torch.float64, requires_grad=True)
    splits = splits_of(lengths)
    assert torch.autograd.gradcheck(lambda v: pool(v, splits, kind), values)
    assert torch.autograd.gradcheck(lambda v: first_n(v, splits, 2), values)
    rows = torch.randn(3, dim, dtype=torch.float64, requires_grad=True)
    inverse = torch.arange(sum(lengths)) % 3
    assert torch.autograd.gradcheck(lambda r: pool_unique(r, inverse, splits, kind), rows)


@pytest.fixture
def restore_native_settings():
    yield
    native.set_num_threads(0)
    native.set_simd_level(native.best_simd_level())


@pytest.mark.usefixtures("restore_native_settings")
@pytest.mark.parametrize("kind", KINDS)
def test_results_depend_neither_on_threads_nor_on_the_instruction_set(kind):
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 20, 2000)
    inverse = torch.tensor((rng.random(lengths.sum()) ** 4 * 3000).astype(np.int64))
    splits = splits_of(lengths)
    base = torch.tensor(rng.standard_normal((3000, 23)), dtype=torch.float32)
    weight = torch.tensor(rng.standard_normal((2000, 23)), dtype=torch.float32)
    seen = []
    levels = ["scalar", "avx2", "avx512"]
    for level in levels[: levels.index(native.best_simd_level()) + 1]:
        for threads in (1, 2, 3, 5):
            native.set_simd_level(level)
            native.set_num_threads(threads)
            rows = base.clone().requires_grad_()
            values = base[inverse].requires_grad_()
            fused, plain = pool_unique(rows, inverse, splits, kind), pool(values, splits, kind)
            ((fused + plain) * weight).sum().backward()
            seen.append((fused, plain, rows.grad, values.grad))
    for other in seen[1:]:
        assert all(torch.equal(a, b) for a, b in zip(seen[0], other, strict=True))


def test_empty_bags_and_batches():
    splits = torch.tensor([0, 0, 2, 2])
    for kind in KINDS:
        pooled = pool(torch.full((2, 3), 4.0), splits, kind)
        assert pooled[0].tolist() == pooled[2].tolist() == [0.0, 0.0, 0.0]
        assert pool(torch.zeros(0, 3), torch.tensor([0]), kind).shape == (0, 3)
        assert pool(torch.zeros(0, 3), torch.tensor([0, 0]), kind).tolist() == [[0.0] * 3]
        empty = torch.tensor([], dtype=torch.int64)
        assert pool_unique(torch.zeros(0, 3), empty, torch.tensor([0, 0]), kind).tolist() == [[0.0] * 3]


def test_non_contiguous_values_and_gradients():
    values = torch.arange(12.0).view(3, 4).t().requires_grad_()
    pooled = pool(values, torch.tensor([0, 1, 4]))
    assert pooled.tolist() == [[0, 4, 8], [6, 18, 30]]
    pooled.t().contiguous().sum().backward()
    assert values.grad.tolist() == [[1.0] * 3] * 4


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([], "empty"),
        ([1, 3], "start with 0"),
        ([0, 2, 1, 3], "must not decrease"),
        ([0, 4], "ends with 4"),
        ([0, 2], "ends with 2"),
    ],
)
def test_bad_splits_are_refused(splits, message):
    splits = torch.tensor(splits, dtype=torch.int64)
    for call in (
        lambda: pool(torch.zeros(3, 2), splits),
        lambda: first_n(torch.zeros(3, 2), splits, 2),
        lambda: pool_unique(torch.zeros(1, 2), torch.zeros(3, dtype=torch.int64), splits),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("bad", [-1, 2, 2**62, -(2**63)])
def test_indices_out_of_range_are_refused(bad):
    inverse = torch.tensor([0, bad, 1])
    with pytest.raises(ValueError, match=rf"inverse\[1\] is {bad}, outside \[0, 2\)"):
        pool_unique(torch.zeros(2, 2), inverse, torch.tensor([0, 3]))
    with pytest.raises(ValueError, match="outside"):
        native.pool_unique_grad(torch.zeros(1, 2), inverse, torch.tensor([0, 3]), "sum", torch.zeros(2, 2))
    with pytest.raises(ValueError, match="outside"):
        reduce_sum(inverse[:, None], torch.zeros(3, 2), 2)


def test_wrong_types_and_shapes_are_refused():
    splits = torch.tensor([0, 3])
    for values in (
        torch.zeros(3),
        torch.zeros(3, 2, 1),
        torch.zeros(3, 2, dtype=torch.float16),
        torch.zeros(3, 2, dtype=torch.int64),
    ):
        with pytest.raises(TypeError, match="values must be a matrix of float32 or float64"):
            pool(values, splits)
    with pytest.raises(TypeError, match="row_splits must be a vector of int64"):
        pool(torch.zeros(3, 2), splits.int())
    with pytest.raises(ValueError, match="at least one column"):
        pool(torch.zeros(3, 0), splits)
    with pytest.raises(ValueError, match="unknown pooling 'max'; choose one of sum, mean, sqrtn"):
        pool(torch.zeros(3, 2), splits, "max")


def test_native_outputs_are_checked():
    values, splits = torch.zeros(3, 2), torch.tensor([0, 3])
    with pytest.raises(TypeError):
        native.pool(values, splits, "sum", torch.zeros(1, 4)[:, ::2])
    with pytest.raises(TypeError):
        native.pool(values, splits, "sum", torch.zeros(1, 2, dtype=torch.float64))
    with pytest.raises(ValueError, match="out has 4 elements, expected 1 rows of 2"):
        native.pool(values, splits, "sum", torch.zeros(2, 2))
    with pytest.raises(ValueError, match="equally wide, got 2 and 3"):
        native.pool(values, splits, "sum", torch.zeros(1, 3))


def test_combiners():
    values = torch.tensor([[1.0], [2.0], [3.0]])
    ids = Ragged.from_row_lengths(torch.tensor([7, 8, 9]), torch.tensor([1, 2]))
    assert ReduceSum().combine(ids, values).tolist() == [[1.0], [5.0]]
    assert ReduceMean().combine(ids, values).tolist() == [[1.0], [2.5]]
    torch.testing.assert_close(Sqrtn().combine(ids, values), torch.tensor([[1.0], [5 / 2**0.5]]))
    assert [combiner.max_seq_length for combiner in (ReduceSum(), ReduceMean(), Sqrtn(), FirstN(5))] == [0, 0, 0, 5]
    assert [repr(combiner) for combiner in (ReduceSum(), FirstN(5))] == ["ReduceSum()", "FirstN(5)"]


def test_first_n_cuts_and_pads():
    values = torch.arange(1.0, 7.0).view(6, 1).requires_grad_()
    ids = Ragged.from_row_lengths(torch.arange(6), torch.tensor([1, 2, 3]))
    out = FirstN(2).combine(ids, values)
    assert out.tolist() == [[[1], [0]], [[2], [3]], [[4], [5]]]
    (out * torch.tensor([10.0, 20.0]).view(1, 2, 1)).sum().backward()
    assert values.grad.flatten().tolist() == [10, 10, 20, 10, 20, 0]


def test_first_n_keeps_its_shape_without_rows():
    assert FirstN(2).combine(Ragged.from_lists([]), torch.zeros(0, 6)).shape == (0, 2, 6)
    assert FirstN(2).combine(Ragged.from_lists([[], []]), torch.zeros(0, 6)).shape == (2, 2, 6)
    for length in (0, -1):
        with pytest.raises(ValueError, match="seq_length must be greater than 0"):
            FirstN(length)
        with pytest.raises(ValueError, match="seq_length must be greater than 0"):
            first_n(torch.zeros(1, 1), torch.tensor([0, 1]), length)


def test_reduce_mean_and_its_gradient():
    values = torch.tensor([[4.0, 4.0], [2.0, 2.0], [1.0, 1.0]], requires_grad=True)
    out = reduce_mean(torch.tensor([[0], [0], [1]]), values, torch.tensor([2]))
    assert out.tolist() == [[3, 3], [1, 1]]
    (torch.zeros(2, 2) - 2 * out)[0].sum().backward()
    assert values.grad[:2].tolist() == [[-1, -1], [-1, -1]]
    assert reduce_mean(torch.tensor([[0]]), torch.ones(1, 2), 2)[1].tolist() == [0, 0]


def test_reduce_sqrtn_is_the_root_of_the_sum_of_squares():
    indices = torch.tensor([[0], [0], [1]])
    values = torch.tensor([[3.0, 3.0], [4.0, 4.0], [4.0, 4.0]])
    assert reduce_sqrtn(indices, values, torch.tensor([2])).tolist() == [[5, 5], [4, 4]]


def test_gradient_of_reduce_sqrtn():
    values = torch.tensor([[3.0, 4.0], [4.0, 3.0]], requires_grad=True)
    (torch.ones(1, 2) - reduce_sqrtn(torch.tensor([[0], [0]]), values, 1)).sum().backward()
    torch.testing.assert_close(values.grad, torch.tensor([[-0.6, -0.8], [-0.8, -0.6]]))
    zeros = torch.zeros(2, 2, requires_grad=True)
    out = reduce_sqrtn(torch.tensor([[0], [0]]), zeros, 1)
    out.sum().backward()
    assert out.tolist() == [[0, 0]]
    assert zeros.grad.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("split_dims", [[2, 1], [1, 2]])
def test_fused_reduce_sum_and_split(split_dims):
    values = torch.tensor([[1.0, 1, 1], [2, 2, 1], [4, 4, 2]], requires_grad=True)
    first, second = fused_reduce_sum_and_split(torch.tensor([[0], [0], [1]]), values, torch.tensor([2]), split_dims)
    expected = {2: ([[3, 3], [4, 4]], [[2], [2]]), 1: ([[3], [4]], [[3, 2], [4, 2]])}[split_dims[0]]
    assert (first.tolist(), second.tolist()) == expected
    (first.sum() + 10 * second.sum()).backward()
    assert values.grad.tolist() == [[1.0] * split_dims[0] + [10.0] * split_dims[1]] * 3


def test_rows_without_values_are_zero():
    values = torch.tensor([[1.0, 1, 1], [2, 2, 1], [4, 4, 2]])
    first, second = fused_reduce_sum_and_split(torch.tensor([[0], [0], [2]]), values, torch.tensor([4]), [2, 1])
    assert first.tolist() == [[3, 3], [0, 0], [4, 4], [0, 0]]
    assert second.tolist() == [[2], [0], [2], [0]]


def test_indices_need_not_be_sorted():
    values = torch.tensor([[1.0], [2.0], [4.0], [8.0]], requires_grad=True)
    out = reduce_sum(torch.tensor([[2, 9], [0, 9], [2, 9], [1, 9]]), values, 3)
    assert out.tolist() == [[2], [8], [5]]
    (out * torch.tensor([[1.0], [10.0], [100.0]])).sum().backward()
    assert values.grad.flatten().tolist() == [100, 1, 100, 10]


def test_bad_reductions_are_refused():
    values = torch.zeros(3, 2)
    indices = torch.tensor([[0], [0], [1]])
    with pytest.raises(ValueError, match="id_indices has 2 rows but id_values has 3"):
        reduce_sum(indices[:2], values, 2)
    with pytest.raises(TypeError, match="id_indices must be int64"):
        reduce_sum(indices.int(), values, 2)
    with pytest.raises(TypeError, match="id_indices must be int64"):
        reduce_sum(indices.flatten(), values, 2)
    with pytest.raises(ValueError, match="id_length must hold one number"):
        reduce_sum(indices, values, torch.tensor([2, 2]))
    with pytest.raises(ValueError, match="id_length must not be negative"):
        reduce_sum(indices, values, -1)
    with pytest.raises(ValueError, match=r"add up to the width 2, got \[2, 1\]"):
        fused_reduce_sum_and_split(indices, values, 2, [2, 1])
