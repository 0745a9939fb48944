"""The figures that training is judged by."""

from __future__ import annotations

from typing import Any

from benchmarks.report import Figure

_PEERS = {
    "torch": (3.0, "speed of training from records against nn.Embedding(sparse=True) with torch.optim.Adagrad"),
    "torchrec": (1.5, "the same against TorchRec, whose fused Adagrad steps rows in the backward pass"),
    "tfra": (3.0, "the same against TFRA's dynamic embedding in a tf.function"),
}


def figures(measured: dict[str, dict[str, Any]]) -> list[Figure]:
    """Return all figures, with their goals, from what was measured of each model."""
    found = [
        Figure(name=f"{model}_vs_{peer}", value=details["ratios"].get(peer), at_least=goal, meaning=meaning)
        for peer, (goal, meaning) in _PEERS.items()
        for model, details in measured.items()
        if peer in details["ratios"]
    ]
    shares = [one["table_time_vs_torch_step"] for one in measured.values()]
    share = None if None in shares else max(shares)
    rate = min(one["samples_per_second"] for one in measured.values())
    return [
        *found,
        Figure(
            name="table_time_vs_torch_step",
            value=share,
            at_most=0.2,
            meaning="seconds in our tables, there and back, as a share of torch's whole step without reading",
        ),
        Figure(name="samples_per_second", value=rate, meaning="events we train on, from records, slower model"),
    ]
