"""A training step without a dense net: forward, a given gradient backward, Adagrad; against torch and FBGEMM."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from benchmarks.ids import DISTRIBUTIONS, Distribution, checksum, ids_of_rows
from benchmarks.machine import num_cores
from benchmarks.measure import Contender, Samples, interleave, speed_ratio, timed
from benchmarks.ours import OurTraining
from benchmarks.peer_process import FBGEMM, TORCH_SPARSE, PeerProcess, PeerProgram, start_peer
from benchmarks.peers.training_ids import TrainingShape
from benchmarks.table.sizes import TableSizes

PEERS: dict[str, tuple[PeerProgram, dict[str, str]]] = {
    "torch": (TORCH_SPARSE, {}),
    "fbgemm_rowwise": (FBGEMM, {"optimizer": "rowwise_adagrad"}),
    "fbgemm_full": (FBGEMM, {"optimizer": "adagrad"}),
}

RATIOS = {
    "train_vs_torch": ("ours_full", "torch"),
    "train_vs_fbgemm_rowwise": ("ours_rowwise", "fbgemm_rowwise"),
    "train_vs_fbgemm_full": ("ours_full", "fbgemm_full"),
}
"""Figure to the two contenders it compares: the same optimizer on both sides."""


def measure_training(
    sizes: TableSizes, progress: Callable[[str], None], notice: Callable[[str], None]
) -> dict[str, Any]:
    """Return ratios and rates for each distribution of ids."""
    shape = sizes.training_shape()
    settings = {**shape.as_settings(), "num_threads": num_cores()}
    with ExitStack() as stack:
        peers: dict[str, PeerProcess] = {}
        for name, (program, extra) in PEERS.items():
            progress(f"training: starting {name}")
            peer = start_peer(program, {**settings, **extra}, notice)
            if peer is not None:
                peers[name] = stack.enter_context(peer)
        progress(f"training: filling {shape.num_features} tables, twice")
        ours = {"ours_full": OurTraining(shape, "adagrad"), "ours_rowwise": OurTraining(shape, "rowwise_adagrad")}
        progress("training: measuring")
        return {name: _one_distribution(ours, peers, shape, sizes.rounds, name) for name in DISTRIBUTIONS}


def _one_distribution(
    ours: dict[str, OurTraining],
    peers: dict[str, PeerProcess],
    shape: TrainingShape,
    rounds: int,
    distribution: Distribution,
) -> dict[str, Any]:
    def expected(seed: int) -> int:
        return checksum(shape.rows(seed, distribution))

    contenders = {name: _our_round(training, shape, distribution) for name, training in ours.items()}
    contenders |= {name: peer.contender(f"train_{distribution}", expected) for name, peer in peers.items()}
    samples = interleave(contenders, rounds=rounds)
    summaries = {name: taken.summary(shape.ids_per_round) for name, taken in samples.items()}
    return {**_ratios(samples), "samples": summaries}


def _ratios(samples: dict[str, Samples]) -> dict[str, float | None]:
    return {
        figure: speed_ratio(samples[us], samples[them]) if them in samples else None
        for figure, (us, them) in RATIOS.items()
    }


def _our_round(training: OurTraining, shape: TrainingShape, distribution: Distribution) -> Contender:
    def run(seed: int) -> float:
        steps = torch.from_numpy(ids_of_rows(shape.rows(seed, distribution))).flatten(start_dim=1)
        return timed(lambda: training.train(steps))

    return run
