"""Losses: figures of the original's tests, NumPy, and gradients."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from monolith.model.losses import (
    batch_softmax_loss,
    get_sigmoid_loss_and_pred,
    get_softmax_loss_and_pred,
    inbatch_auc_loss,
)

F64 = torch.float64


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def test_inbatch_auc_figures():
    logit = torch.tensor([0.5, -0.2, -0.4, 0.8], requires_grad=True)
    loss = inbatch_auc_loss(torch.tensor([1.0, 0.0, 0.0, 1.0]), logit)
    assert loss.item() == pytest.approx(-1.32088408, rel=1e-6)
    loss.backward(torch.tensor(2.0))
    np.testing.assert_allclose(logit.grad.numpy(), [1.24172545, -1.20150730, -1.04105143, 1.00083328], rtol=1e-6)


def test_inbatch_auc_gradient_is_that_of_the_value():
    label = torch.tensor([1.0, 0.0, -20000.0, 2.0, -1.0], dtype=F64)
    assert gradcheck(lambda logit: inbatch_auc_loss(label, logit), normal(5).requires_grad_())


def test_inbatch_auc_weights_negatives_and_leaves_out_unknown():
    label, gradients = torch.tensor([1.0, 0.0, -10000.0, 0.0]), {}
    for weight in (1.0, 0.25):
        logit = torch.tensor([0.5, 0.1, 9.0, -0.3], requires_grad=True)
        inbatch_auc_loss(label, logit, neg_weight=weight).backward()
        gradients[weight] = logit.grad
    torch.testing.assert_close(gradients[0.25], gradients[1.0] * torch.tensor([1, 0.25, 0, 0.25]))
    assert gradients[1.0][2] == 0


def test_inbatch_auc_survives_far_logits_and_one_sided_batches():
    logit = torch.tensor([-500.0, 500.0], requires_grad=True)
    loss = inbatch_auc_loss(torch.tensor([1.0, 0.0]), logit)
    loss.backward()
    assert loss.item() == -1000
    assert logit.grad.tolist() == [1.0, -1.0]
    assert inbatch_auc_loss(torch.ones(3), torch.zeros(3)).item() == 0


@pytest.mark.parametrize("weight", [0.0, 1.1, -1.0])
def test_inbatch_auc_errors(weight):
    with pytest.raises(ValueError, match=r"neg_weight must be in \(0, 1\]"):
        inbatch_auc_loss(torch.zeros(1), torch.zeros(1), weight)
    with pytest.raises(ValueError, match="a number per event, got 1 and 2"):
        inbatch_auc_loss(torch.zeros(1), torch.zeros(2))


QUERY = [[0.18463433, 0.7748109, 0.5901822], [0.11772865, 0.39442706, 0.14569713]]
QUERY += [[0.02296862, 0.19299343, 0.80632013], [0.29088834, 0.7528695, 0.94963497]]
ITEM = [[0.667676, 0.5424082, 0.16766159], [0.10226119, 0.79065776, 0.9607833]]
ITEM += [[0.56931126, 0.7319332, 0.97737134], [0.42811456, 0.10158236, 0.94999844]]


def test_batch_softmax_figure():
    loss = batch_softmax_loss(torch.tensor(QUERY), torch.tensor(ITEM), torch.tensor([9, 9, 1, 7]), 1.0)
    assert loss.item() == pytest.approx(6.5931373, rel=1e-6)


@pytest.mark.parametrize("normalize", [True, False])
def test_batch_softmax_formula(normalize):
    query, item, r = normal(5, 3), normal(5, 3, seed=1), torch.rand(5, dtype=F64)
    interval = torch.tensor([0, 1, 4, 9, 2])
    q, i = query.numpy(), item.numpy()
    if normalize:
        q, i = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, i))
    s = np.exp(q @ i.T / 0.5 - np.log(1 / np.maximum(interval.numpy(), 1)))
    expected = -(r.numpy() * np.log(np.diag(s) / s.sum(1))).sum()
    got = batch_softmax_loss(query, item, interval, r, normalize=normalize, temperature=0.5)
    assert got.item() == pytest.approx(expected)


@pytest.mark.parametrize("temperature", [0, -0.5])
def test_batch_softmax_needs_a_positive_temperature(temperature):
    with pytest.raises(ValueError, match=f"temperature should be positive, while got {temperature}"):
        batch_softmax_loss(torch.ones(1, 1), torch.ones(1, 1), torch.ones(1), 1.0, temperature=temperature)


LOGIT, LABEL = normal(6, 1), torch.tensor([1.0, 0, 1, 0, 1, 0], dtype=F64)


def entropy(z, y):
    return np.log1p(np.exp(z)) - y * z


def test_sigmoid_loss_is_a_sum_of_cross_entropies():
    loss, pred = get_sigmoid_loss_and_pred("ctr", LOGIT, LABEL, 6)
    z = LOGIT.numpy()[:, 0]
    np.testing.assert_allclose(pred.numpy(), 1 / (1 + np.exp(-z)))
    assert loss.item() == pytest.approx(entropy(z, LABEL.numpy()).sum())


@pytest.mark.parametrize("sample_bias", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_sigmoid_loss_corrects_for_samples_left_out(sample_bias, before):
    rate = torch.tensor([0.1, 0.5, 1, 1, 0.2, 0.9], dtype=F64)
    loss, pred = get_sigmoid_loss_and_pred(
        "ctr", LOGIT, LABEL, 6, sample_rate=rate, sample_bias=sample_bias, predict_before_correction=before
    )
    z = LOGIT.numpy()[:, 0]
    corrected = (-np.log1p(np.exp(-z)) if sample_bias else z) - np.log(rate.numpy())
    assert loss.item() == pytest.approx(entropy(corrected, LABEL.numpy()).sum())
    np.testing.assert_allclose(pred.numpy(), 1 / (1 + np.exp(-(z if before else corrected))))


def test_sigmoid_loss_weights_masks_and_clips():
    weight, mask = torch.rand(6, dtype=F64), torch.tensor([1, 1, 0, 1, 1, 0], dtype=torch.bool)
    loss, _ = get_sigmoid_loss_and_pred(
        "ctr", 5 * LOGIT, LABEL, 6, instance_weight=weight, mask=mask, logit_clip_threshold=0.1
    )
    z = np.clip(5 * LOGIT.numpy()[:, 0], -np.log(9), np.log(9))
    assert loss.item() == pytest.approx((entropy(z, LABEL.numpy()) * weight.numpy())[mask.numpy()].sum())
    with pytest.raises(ValueError, match="logit_clip_threshold must be between 0 and 1"):
        get_sigmoid_loss_and_pred("ctr", LOGIT, LABEL, 6, logit_clip_threshold=1.0)


def test_a_masked_event_with_a_bad_label_does_not_spoil_the_loss():
    label = torch.tensor([float("nan"), 1.0])
    logits = torch.zeros(2, requires_grad=True)
    loss, _ = get_sigmoid_loss_and_pred("ctr", logits, label, 2, mask=torch.tensor([False, True]))
    assert loss.item() == pytest.approx(np.log(2))
    loss.backward()
    assert logits.grad.tolist() == [0.0, -0.5]


def test_predict_has_no_loss_and_needs_no_label():
    loss, pred = get_sigmoid_loss_and_pred("ctr", LOGIT, None, 6, mode="predict")
    assert loss is None
    assert pred.shape == (6,)
    with pytest.raises(ValueError, match="'ctr' needs a label"):
        get_sigmoid_loss_and_pred("ctr", LOGIT, None, 6)


def test_softmax_loss_is_per_event():
    logits = normal(4, 3)
    label = torch.eye(3, dtype=F64)[[0, 2, 1, 1]]
    loss, pred = get_softmax_loss_and_pred("kind", logits, label)
    shares = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(1, keepdims=True)
    np.testing.assert_allclose(loss.numpy(), -np.log(shares[np.arange(4), [0, 2, 1, 1]]), rtol=1e-10)
    assert pred.tolist() == logits.numpy().argmax(1).tolist()
    assert get_softmax_loss_and_pred("kind", logits, None, "predict")[0] is None
    with pytest.raises(ValueError, match=r"one-hot labels of shape \(4, 3\)"):
        get_softmax_loss_and_pred("kind", logits, torch.zeros(4))
