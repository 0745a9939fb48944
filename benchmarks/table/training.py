"""A training step without a dense net: forward, a given gradient backward, Adagrad; against plain arrays and peers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from benchmarks.ids import DISTRIBUTIONS, Distribution, checksum, ids_of_rows
from benchmarks.machine import num_cores
from benchmarks.measure import Contender, Samples, against_each, interleave, speed_ratio, timed
from benchmarks.ours import LEARNING_RATE, OurTraining
from benchmarks.peer_process import FBGEMM, TORCH_SPARSE, PeerProcess, PeerProgram, start_peer
from benchmarks.peers.training_ids import TrainingShape
from benchmarks.table.lookup import huge_page_floats
from benchmarks.table.sizes import TableSizes
from monolith._core import native

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
        results = {name: _one_distribution(ours, peers, shape, sizes.rounds, name) for name in DISTRIBUTIONS}
    progress("training: measuring against plain arrays")
    for name in DISTRIBUTIONS:
        results[name]["bound"] = _against_bound(ours["ours_full"], shape, sizes.rounds, name)
    return results


class PlainTraining:
    """Rows of weights and Adagrad state in one plain array: what memory allows, without an index or repeated ids."""

    def __init__(self, shape: TrainingShape) -> None:
        """Make the rows, on huge pages as a table's are."""
        self._shape = shape
        self._rows = huge_page_floats(shape.num_features * shape.rows_per_feature, 2 * shape.dim).fill_(0.1)
        self._out = torch.zeros(shape.num_features * shape.batch_size, shape.dim)
        self._gradients = torch.randn(shape.num_features * shape.batch_size, shape.dim)

    def round(self, distribution: Distribution, *, far: bool = False) -> Contender:
        """Return some steps as a contender; a thread takes one feature's ids at a time, as no two share a row.

        Rows are fetched a dozen ahead, or with `far` some dozens.
        """
        first_rows = torch.arange(self._shape.num_features)[:, None] * self._shape.rows_per_feature

        def step(rows: torch.Tensor) -> None:
            batch_size = self._shape.batch_size
            native.plain_train(self._rows, rows, self._out, self._gradients, LEARNING_RATE, batch_size, far)

        def run(seed: int) -> float:
            steps = (torch.from_numpy(self._shape.rows(seed, distribution)) + first_rows).flatten(start_dim=1)
            return timed(lambda: [step(rows) for rows in steps])

        return run


def thread_counts() -> list[int]:
    """Return the numbers of threads that a step is compared at."""
    return sorted({1, min(4, num_cores()), num_cores()})


def _against_bound(ours: OurTraining, shape: TrainingShape, rounds: int, distribution: Distribution) -> dict[str, Any]:
    plain = PlainTraining(shape)
    step = our_round(ours, shape, distribution)
    bounds = {"bound": plain.round(distribution), "bound_far": plain.round(distribution, far=True)}
    results: dict[str, Any] = {}
    for num_threads in thread_counts():
        native.set_num_threads(num_threads)
        try:
            ratios, samples = against_each(step, bounds, rounds=rounds)
        finally:
            native.set_num_threads(0)
        results[f"{num_threads}_threads"] = {
            "train_vs_bound": ratios["bound"],
            "train_vs_bound_far": ratios["bound_far"],
            "samples": {name: taken.summary(shape.ids_per_round) for name, taken in samples.items()},
        }
    return results


def _one_distribution(
    ours: dict[str, OurTraining],
    peers: dict[str, PeerProcess],
    shape: TrainingShape,
    rounds: int,
    distribution: Distribution,
) -> dict[str, Any]:
    def expected(seed: int) -> int:
        return checksum(shape.rows(seed, distribution))

    contenders = {name: our_round(training, shape, distribution) for name, training in ours.items()}
    contenders |= {name: peer.contender(f"train_{distribution}", expected) for name, peer in peers.items()}
    samples = interleave(contenders, rounds=rounds)
    summaries = {name: taken.summary(shape.ids_per_round) for name, taken in samples.items()}
    return {**_ratios(samples), "samples": summaries}


def _ratios(samples: dict[str, Samples]) -> dict[str, float | None]:
    return {
        figure: speed_ratio(samples[us], samples[them]) if them in samples else None
        for figure, (us, them) in RATIOS.items()
    }


def our_round(training: OurTraining, shape: TrainingShape, distribution: Distribution) -> Contender:
    """Return some training steps as a contender."""

    def run(seed: int) -> float:
        steps = torch.from_numpy(ids_of_rows(shape.rows(seed, distribution))).flatten(start_dim=1)
        return timed(lambda: training.train(steps))

    return run
