"""How much the serving benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.measure import MIN_ROUNDS


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingSizes:
    """Rows, requests and seconds; the defaults are the full benchmark."""

    rows_per_table: int = 100_000
    """Of each of the 26 features."""

    dim: int = 16

    hidden: tuple[int, ...] = (256, 64)

    num_candidates: int = 100
    """Of one request, for one user."""

    num_bodies: int = 64
    """Different requests, which are sent by turns."""

    num_connections: int = 16
    """Of the load generator when it asks for as much as it can get."""

    rounds: int = MIN_ROUNDS

    round_seconds: float = 1.0
    """Each server's turn in a round."""

    open_seconds: float = 10.0
    """At a fixed rate, in all, to see how long answers take; syncing and quiet take turns within it."""

    num_open_turns: int = 5

    num_synced_rows: int = 200_000
    """Of one large delta."""

    sync_every_seconds: float = 0.1

    num_rows_per_sync: int = 2_600
    """Of each delta while requests are answered."""

    num_calls: int = 200
    """Of the dense part alone, in one round."""


FULL = ServingSizes()
QUICK = ServingSizes(rows_per_table=50_000, round_seconds=0.4, open_seconds=6.0, num_open_turns=3, num_calls=50)
SMOKE = ServingSizes(
    rows_per_table=200,
    dim=4,
    hidden=(8, 4),
    num_candidates=5,
    num_bodies=4,
    num_connections=2,
    round_seconds=0.02,
    open_seconds=0.4,
    num_open_turns=1,
    num_synced_rows=1_000,
    num_rows_per_sync=26,
    num_calls=2,
)
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}
