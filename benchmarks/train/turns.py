"""One model: our trainer and the peers take turns, round by round."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Any

from benchmarks.measure import Contender, Samples, interleave, speed_ratio
from benchmarks.peer_process import PeerError, PeerProcess, PeerProgram, start_peer
from benchmarks.peers.clicks.shape import ClickShape
from benchmarks.train.records import ids_checksum
from benchmarks.train.sizes import WARMUP_ROUNDS, TrainSizes

PEERS = {
    "torch": PeerProgram(name="torch", module="benchmarks.peers.clicks.torch_sparse"),
    "torchrec": PeerProgram(name="torchrec", module="benchmarks.peers.clicks.torchrec_fused", venv=".venv-fbgemm"),
    "tfra": PeerProgram(name="tfra", module="benchmarks.peers.clicks.tfra_dynamic", venv=".venv-tfra"),
}
MODELS_OF_PEERS = {"tfra": ("deepfm",)}
"""Peers that have some models only."""

Notice = Callable[[str], None]


class Clock:
    """Collects the parts of each round's seconds beside the whole."""

    def __init__(self) -> None:
        """Begin without rounds."""
        self.parts: dict[str, list[float]] = {}

    def note(self, **seconds: float) -> None:
        """Take the parts of one round."""
        for part, value in seconds.items():
            self.parts.setdefault(part, []).append(value)

    def samples(self, part: str) -> Samples:
        """Return a part of the rounds that count."""
        return Samples(tuple(self.parts[part][WARMUP_ROUNDS:]))


def measure_model(sizes: TrainSizes, shape: ClickShape, progress: Notice, notice: Notice) -> dict[str, Any]:
    """Return ratios, rates and seconds of one model."""
    with ExitStack() as stack:
        peers: dict[str, PeerProcess | None] = {}
        for name, program in PEERS.items():
            if shape.model in MODELS_OF_PEERS.get(name, (shape.model,)):
                progress(f"{shape.model}: starting {name}")
                peers[name] = start_peer(program, shape.as_settings(), notice)
        there = {name: stack.enter_context(peer) for name, peer in peers.items() if peer is not None}
        progress(f"{shape.model}: filling our tables with {sum(shape.table_rows):,} rows")
        ours = stack.enter_context(PeerProcess("ours", [sys.executable, "-m", "benchmarks.train.our_run"]))
        ours.setup({**shape.as_settings(), "num_rounds": sizes.num_seeds})
        clocks = {name: Clock() for name in ("ours", *there)}
        # Ours is the first, which gets the seeds in order: its source has the rounds in that order too.
        contenders = {"ours": _our_contender(ours, clocks["ours"])}
        contenders |= {name: _peer_contender(peer, name, sizes, clocks[name]) for name, peer in there.items()}
        progress(f"{shape.model}: measuring {', '.join(contenders)}")
        samples = interleave(contenders, rounds=sizes.rounds, warmup_rounds=WARMUP_ROUNDS)
        _, num_rows = ours.round(0, "rows")
        return {**_result(sizes, samples, clocks, list(peers)), "our_rows_at_the_end": num_rows}


def _our_contender(ours: PeerProcess, clock: Clock) -> Contender:
    def run(seed: int) -> float:
        seconds, _ = ours.round(seed, "train")
        steps, tables = (ours.round(seed, part)[0] for part in ("steps", "tables"))
        clock.note(steps=steps, tables=tables, reading=seconds - steps)
        return seconds

    return run


def _peer_contender(peer: PeerProcess, name: str, sizes: TrainSizes, clock: Clock) -> Contender:
    expected = cache(lambda seed: ids_checksum(sizes, seed))

    def run(seed: int) -> float:
        seconds, checksum = peer.round(seed, "train")
        if checksum != expected(seed):
            raise PeerError(f"peer {name} read other ids than were written for seed {seed}")
        reading, _ = peer.round(seed, "reading")
        clock.note(steps=seconds - reading, reading=reading)
        return seconds

    return run


def _result(
    sizes: TrainSizes, samples: dict[str, Samples], clocks: dict[str, Clock], peers: list[str]
) -> dict[str, Any]:
    ours = samples["ours"]
    steps = {name: clock.samples("steps") for name, clock in clocks.items()}
    tables = clocks["ours"].samples("tables")
    share = None
    if "torch" in steps:
        pairs = zip(tables.seconds, steps["torch"].seconds, strict=True)
        share = statistics.median(spent / whole for spent, whole in pairs)
    per_step = {
        name: {part: clock.samples(part).median / sizes.num_steps for part in clock.parts}
        for name, clock in clocks.items()
    }
    return {
        "ratios": {name: speed_ratio(ours, samples[name]) if name in samples else None for name in peers},
        "step_ratios": {name: speed_ratio(steps["ours"], steps[name]) for name in steps if name != "ours"},
        "table_time_vs_torch_step": share,
        "samples_per_second": round(sizes.events_per_round / ours.median),
        "seconds_per_step": per_step,
        "samples": {name: taken.summary(sizes.events_per_round) for name, taken in samples.items()},
    }
