"""Layers for sequences, against NumPy."""

import numpy as np
import pytest
import torch

from monolith.model.layers import DIEN, DIN, DMR_U2I, AGRUCell, dynamic_rnn_with_attention, static_rnn_with_attention
from tests.model.layers.layer_cases import F64, normal, randomised
from tests.model.layers.reference import dense, sigmoid, softmax

KEYS = normal(6, 4, 3)
QUERY = normal(6, 3, seed=1)


@pytest.mark.parametrize("decay", [False, True])
def test_din(decay):
    layer = DIN([4, 1], decay=decay, dtype=F64)
    w = randomised(layer, (QUERY, KEYS))
    mask = torch.tensor([[1, 1, 0, 1]] * 6)
    keys = KEYS.numpy()
    query = np.repeat(QUERY.numpy()[:, None], 4, axis=1)
    both = np.concatenate([query, keys, query - keys, query * keys], axis=2)
    hidden = np.maximum(dense(both, w, "attention.dense_0."), 0)
    weights = dense(hidden, w, "attention.dense_1.") / (np.sqrt(3) if decay else 1) * mask.numpy()[..., None]
    np.testing.assert_allclose(layer((QUERY, KEYS), mask=mask).detach().numpy(), (weights * keys).sum(1), rtol=1e-9)
    layer.mode = "weighted"
    np.testing.assert_allclose(layer((QUERY, KEYS), mask=mask).detach().numpy(), weights * keys, rtol=1e-9)


def test_din_must_end_in_one_number():
    with pytest.raises(ValueError, match="last of hidden_units must be 1"):
        DIN([4, 2])


def step(w, x, h, score, att_type, prefix="", function=np.tanh):
    gates = sigmoid(np.concatenate([x, h], 1) @ w[prefix + "gate_kernel"] + w[prefix + "gate_bias"])
    reset, update = gates[:, : h.shape[1]], gates[:, h.shape[1] :]
    both = np.concatenate([x, reset * h], 1)
    candidate = function(both @ w[prefix + "candidate_kernel"] + w[prefix + "candidate_bias"])
    if score is None:
        return (1 - update) * h + update * candidate
    if att_type == "AGRU":
        return (1 - score) * h + score * candidate
    update = (1 - score) * update
    return update * h + (1 - update) * candidate


@pytest.mark.parametrize("att_type", ["AGRU", "AUGRU"])
@pytest.mark.parametrize("scored", [True, False])
def test_attention_cell_over_a_sequence(att_type, scored):
    cell = AGRUCell(2, att_type, dtype=F64)
    w = randomised(cell, KEYS[:, 0], torch.zeros(6, 2, dtype=F64))
    scores = torch.rand(6, 4, dtype=F64) if scored else None
    state, states = np.zeros((6, 2)), []
    for t in range(4):
        score = scores.numpy()[:, t : t + 1] if scored else None
        state = step(w, KEYS.numpy()[:, t], state, score, att_type)
        states.append(state)
    outputs, last = dynamic_rnn_with_attention(cell, KEYS, scores)
    np.testing.assert_allclose(outputs.detach().numpy(), np.stack(states, 1), rtol=1e-10)
    assert torch.equal(last, outputs[:, -1])
    assert torch.equal(static_rnn_with_attention(cell, KEYS, scores)[0], outputs)


def test_a_cell_starts_with_biases_of_one_and_takes_a_first_state():
    cell = AGRUCell(2)
    cell(torch.zeros(1, 3), torch.zeros(1, 2))
    assert cell.gate_bias.tolist() == [1.0] * 4
    assert cell.candidate_bias.tolist() == [1.0] * 2
    _, last = dynamic_rnn_with_attention(cell, torch.zeros(1, 1, 3), torch.zeros(1, 1), init_state=torch.ones(1, 2))
    assert last.tolist() == [[1.0, 1.0]]  # attention 0 keeps the state
    with pytest.raises(ValueError, match="att_type"):
        AGRUCell(2, "GRU")


@pytest.mark.parametrize("att_type", ["AGRU", "AUGRU"])
def test_dien(att_type):
    layer = DIEN(2, att_type=att_type, activation="tanh", dtype=F64)
    w = randomised(layer, (QUERY, KEYS))
    state, states = np.zeros((6, 2)), []
    for t in range(4):
        state = step(w, KEYS.numpy()[:, t], state, None, att_type, "interest_cell.")
        states.append(state)
    scores = softmax(np.einsum("bth,bh->bt", np.stack(states, 1), QUERY.numpy() @ w["weight"]))
    last = np.zeros((6, 2))
    for t in range(4):
        last = step(w, states[t], last, scores[:, t : t + 1], att_type, "evolution_cell.")
    np.testing.assert_allclose(layer((QUERY, KEYS)).detach().numpy(), last, rtol=1e-9)


def test_dmr():
    layer = DMR_U2I(5, dtype=F64)
    item = normal(6, 2, seed=2)
    w = randomised(layer, (item, KEYS))
    scores = (w["pos_emb"] + KEYS.numpy() @ w["emb_weight"] + w["bias"]) @ w["z_weight"]
    pooled = (softmax(scores, axis=1) * KEYS.numpy()).sum(1)
    hidden = pooled @ w["linear.kernel"] + w["linear.bias"]
    hidden = np.where(hidden > 0, hidden, w["linear.activation.alpha"] * hidden)
    np.testing.assert_allclose(layer((item, KEYS)).detach().numpy(), hidden * item.numpy(), rtol=1e-9)
