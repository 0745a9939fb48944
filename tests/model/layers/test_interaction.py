"""Layers in which features meet, against NumPy."""

import numpy as np
import pytest
import torch

from monolith.model.layers import CAN, CIN, DCN, FFM, FM, AllInt, AutoInt, CDot, GroupInt, SeNet, iRazor
from tests.model.layers.layer_cases import F64, normal, randomised
from tests.model.layers.reference import dense, normed, sigmoid, softmax

X = normal(6, 4, 3)
ROWS = normal(6, 5)
LEFT, RIGHT = [normal(6, 3, seed=s) for s in (1, 2)], [normal(6, 3, seed=s) for s in (3, 4, 5)]


def pairs():
    return [left.numpy() * right.numpy() for left in LEFT for right in RIGHT]


def test_group_int_multiplies_all_pairs():
    assert FFM is GroupInt
    np.testing.assert_allclose(GroupInt()((LEFT, RIGHT)).numpy(), np.concatenate(pairs(), axis=1))
    np.testing.assert_allclose(GroupInt(out_type="stack")((LEFT, RIGHT)).numpy(), np.stack(pairs(), axis=1))
    assert len(GroupInt(out_type=None)((LEFT, RIGHT))) == 6
    (kept,) = GroupInt("dot", keep_list=True)((LEFT, RIGHT))
    np.testing.assert_allclose(kept.numpy(), np.stack([pair.sum(1) for pair in pairs()], axis=1))


def test_group_int_needs_one_width():
    with pytest.raises(ValueError, match=r"features of one width, got \[3, 3, 6\]"):
        GroupInt()((LEFT, [normal(6, 6)]))


def test_group_int_weights_pairs_by_attention():
    layer = GroupInt(use_attention=True, attention_units=[4, 1], dtype=F64)
    w = randomised(layer, (LEFT, RIGHT))
    expected = []
    for pair in pairs():
        hidden = np.maximum(dense(pair, w, "attention.dense_0."), 0)
        expected.append(pair * dense(hidden, w, "attention.dense_1."))
    np.testing.assert_allclose(layer((LEFT, RIGHT)).detach().numpy(), np.concatenate(expected, axis=1), rtol=1e-10)


@pytest.mark.parametrize(
    "wrong",
    [{"attention_units": [4, 2]}, {"attention_units": None}, {"interaction_type": "dot", "attention_units": [1]}],
)
def test_attention_must_end_in_one_number_per_pair(wrong):
    with pytest.raises(ValueError, match="last is 1"):
        GroupInt(use_attention=True, **wrong)


def test_fm_is_the_sum_over_pairs_of_different_features():
    x = X.numpy()
    expected = sum((x[:, i] * x[:, j]).sum(1) for i in range(4) for j in range(i + 1, 4))
    np.testing.assert_allclose(FM()(X).numpy()[:, 0], expected, rtol=1e-10)
    assert torch.equal(FM()(list(X.unbind(1))), FM()(X))


@pytest.mark.parametrize("use_bias", [True, False])
def test_all_int(use_bias):
    layer = AllInt(2, use_bias=use_bias, out_type="stack", dtype=F64)
    w = randomised(layer, X)
    mixtures = np.einsum("bfd,fc->bdc", X.numpy(), w["kernel"]) + w.get("bias", 0)
    np.testing.assert_allclose(layer(X).detach().numpy(), X.numpy() @ mixtures, rtol=1e-10)
    layer.out_type = "concat"
    assert layer(X).shape == (6, 8)


def test_cdot():
    layer = CDot(project_dim=2, compress_units=[5], dtype=F64)
    w = randomised(layer, X)
    projected = np.einsum("bfd,fp->bdp", X.numpy(), w["project_weight"]).reshape(6, 6)
    hidden = np.maximum(dense(projected, w, "compress_tower.dense_0."), 0)
    compressed = dense(hidden, w, "compress_tower.dense_1.")
    crossed = X.numpy() @ compressed.reshape(6, 3, 2)
    expected = np.concatenate([crossed.reshape(6, 8), compressed], axis=1)
    np.testing.assert_allclose(layer(X).detach().numpy(), expected, rtol=1e-9)


def test_autoint():
    expected = X.numpy()
    for _ in range(2):
        expected = softmax(expected @ expected.transpose(0, 2, 1)) @ expected
    np.testing.assert_allclose(AutoInt(2, out_type="stack")(X).numpy(), expected, rtol=1e-10)
    assert AutoInt()(X).shape == (6, 12)


def test_can_without_sequence_and_stack():
    user, item = normal(6, 3), normal(6, 24, seed=1)
    expected = np.empty((6, 3))
    for event in range(6):
        vector, weights = user[event].numpy(), item[event].numpy()
        for layer in range(2):
            kernel, bias = weights[layer * 12 : layer * 12 + 9].reshape(3, 3), weights[layer * 12 + 9 : layer * 12 + 12]
            vector = np.maximum(vector @ kernel + bias, 0)
        expected[event] = vector
    np.testing.assert_allclose(CAN(is_stacked=False)((user, item)).numpy(), expected, rtol=1e-10)


def test_can_sums_sequences_and_keeps_stacks():
    item, plain = normal(6, 12, seed=1), CAN(1, is_stacked=False)
    users = normal(6, 2, 4, 3)
    each = torch.stack([torch.stack([plain((users[:, n, t], item)) for t in range(4)], 1) for n in range(2)], 1)
    torch.testing.assert_close(CAN(1, is_seq=True)((users, item)), each.sum(2))
    torch.testing.assert_close(CAN(1)((users[:, 0], item)), each[:, 0])
    torch.testing.assert_close(CAN(1, is_seq=True, is_stacked=False)((users[:, 0], item)), each[:, 0].sum(1))


def test_can_needs_an_item_of_the_right_width():
    with pytest.raises(ValueError, match=r"must be 2·3·4 = 24, got 23"):
        CAN()((normal(2, 4, 3), normal(2, 23)))


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("dcn_type", ["vector", "matrix"])
def test_dcn_vector_and_matrix(dcn_type, normalised):
    layer = DCN(2, dcn_type, allow_kernel_norm=normalised, dtype=F64)
    w = randomised(layer, ROWS)
    first = x = ROWS.numpy()
    for index in range(2):
        kernel, bias = w[f"kernel_{index}"], w[f"bias_{index}"]
        assert kernel.shape == ((5, 1) if dcn_type == "vector" else (5, 5))
        if normalised:
            kernel = normed(kernel, w[f"kernel_{index}_trainable_norm"])
        x = (first * (x @ kernel) + bias if dcn_type == "vector" else first * (x @ kernel + bias)) + x
    np.testing.assert_allclose(layer(ROWS).detach().numpy(), x, rtol=1e-9)


def test_dcn_mixed_weights_its_experts_by_a_softmax_over_them():
    layer = DCN(2, "mixed", num_experts=3, low_rank=2, dtype=F64)
    w = randomised(layer, ROWS)
    first = x = ROWS.numpy()
    for index in range(2):
        v, c, u, bias = (w[f"{name}_{index}"] for name in ("v", "c", "u", "bias"))
        gates = softmax(x @ w[f"gate_{index}"])
        experts = [first * (np.tanh(np.tanh(x @ v[j]) @ c[j]) @ u[j].T + bias) for j in range(3)]
        x = sum(gates[:, j : j + 1] * experts[j] for j in range(3)) + x
    np.testing.assert_allclose(layer(ROWS).detach().numpy(), x, rtol=1e-9)


def test_dcn_with_norm_starts_as_without():
    torch.manual_seed(0)
    plain = DCN(1, "mixed", num_experts=2, low_rank=2, in_features=5, dtype=F64)
    torch.manual_seed(0)
    normalised = DCN(1, "mixed", num_experts=2, low_rank=2, allow_kernel_norm=True, in_features=5, dtype=F64)
    torch.testing.assert_close(normalised(ROWS), plain(ROWS))


def test_dcn_drops_outputs_in_training_only():
    layer = DCN(use_dropout=True, keep_prob=0.5, dtype=F64)
    kept = layer.eval()(ROWS)
    torch.manual_seed(0)
    dropped = layer.train()(ROWS)
    assert (dropped == 0).any()
    torch.testing.assert_close(dropped[dropped != 0], 2 * kept[dropped != 0])
    layer.mode = "predict"
    assert torch.equal(layer(ROWS), kept)


@pytest.mark.parametrize(
    ("wrong", "message"), [({"dcn_type": "tensor"}, "dcn_type must be"), ({"dcn_type": "mixed"}, "low_rank")]
)
def test_dcn_errors(wrong, message):
    with pytest.raises(ValueError, match=message):
        DCN(**wrong)


def test_cin():
    layer = CIN([3, 2], activation="tanh", dtype=F64)
    w = randomised(layer, X)
    first, sums = X.numpy(), []
    x = first
    for index, function in enumerate([np.tanh, lambda z: z]):
        kernel = w[f"kernel_{index}"].reshape(x.shape[1], 4, -1)
        x = function(np.einsum("bid,bjd,ijh->bhd", x, first, kernel) + w[f"bias_{index}"][:, None])
        sums.append(x.sum(2))
    np.testing.assert_allclose(layer(X).detach().numpy(), np.concatenate(sums, axis=1), rtol=1e-9)


def test_cin_takes_a_function_too():
    torch.manual_seed(0)
    by_name = CIN([3, 2], "tanh")
    expected = by_name(X.float())
    by_function = CIN([3, 2], torch.tanh)
    by_function.load_state_dict(by_name.state_dict())
    assert torch.equal(by_function(X.float()), expected)


def test_senet_takes_a_tensor_or_features_of_different_widths():
    layer = SeNet(4, 2, out_type=None, dtype=F64)
    features = [normal(6, dim, seed=dim) for dim in (2, 3, 4, 5)]
    w = randomised(layer, features)
    hidden = np.maximum(dense(np.stack([f.numpy().mean(1) for f in features], 1), w, "excitation.dense_0."), 0)
    weights = sigmoid(dense(hidden, w, "excitation.dense_1."))
    for index, (got, feature) in enumerate(zip(layer(features), features, strict=True)):
        np.testing.assert_allclose(got.detach().numpy(), feature.numpy() * weights[:, index : index + 1], rtol=1e-10)
    layer.out_type = "concat"
    torch.testing.assert_close(layer(X), layer(list(X.unbind(1))))


def test_irazor():
    layer = iRazor([0, 1, 3], t=0.5, feature_weight=[1.0, 2.0, 3.0, 4.0], out_type="stack", dtype=F64)
    w = randomised(layer, X)
    masks = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 1]])
    soft = softmax(w["nas_logits"] / 0.5) @ masks
    np.testing.assert_allclose(layer(X).detach().numpy(), X.numpy() * soft, rtol=1e-10)
    (loss,) = layer.layer_losses()
    assert loss.item() == pytest.approx(np.array([1, 2, 3, 4]) @ soft.sum(1))
    with pytest.raises(ValueError, match="widths that grow"):
        iRazor([1, 1])
