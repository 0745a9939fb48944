"""How a synchronous job grows with its ranks: a model, fitted to what two ranks on one machine do.

Every rank has a batch of its own, so ideal ranks take the same seconds per step whatever their number is. A step of n
ranks costs

    its own work              measured: a step less its calls to other ranks
    5 all-to-all calls        n - 1 messages each: whether all go on, numbers of ids, ids, rows, gradients
    1 all-reduce call         2 (n - 1) messages: dense gradients, with checks and event times

and the bytes of ids, rows and gradients, of which (n - 1) / n belong to other ranks. Lines through measured swaps give
the costs: of a call and of a message by small swaps of more and more ranks, of a byte by larger and larger swaps of
two. More ranks than cores share the cores, so the messages of all of them count there; in a real job every rank has its
own. A byte costs at least what a network of 25 Gbit/s per rank takes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.ps.growth import NETWORK_BYTES_PER_SECOND

NUM_RANKS = (1, 2, 4, 16, 64, 256, 1024)
_ALL_TO_ALLS, _ALL_REDUCES = 5, 1
_NUM_CALLS = _ALL_TO_ALLS + _ALL_REDUCES
_ID_BYTES, _FLOAT_BYTES = 8, 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What a step of one rank does."""

    own_seconds: float
    num_ids: int
    """Different ids of a batch."""

    dim: int
    num_weights: int
    """Dense."""

    batch_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Swap:
    """Seconds of an exchange."""

    call: float
    message: float
    byte: float


def messages_per_core(num_ranks: int, num_cores: int) -> float:
    """Return how many messages of a swap a core handles, if the ranks share the cores.

    >>> messages_per_core(2, 2), messages_per_core(8, 2)
    (1.0, 28.0)
    """
    return num_ranks * (num_ranks - 1) / min(num_ranks, num_cores)


def seconds_of(step: Step, swap: Swap, num_ranks: int) -> tuple[float, str]:
    """Return the seconds of a step, and what takes most of what is not a rank's own work.

    >>> step = Step(own_seconds=0.1, num_ids=1000, dim=4, num_weights=10, batch_size=100)
    >>> seconds_of(step, Swap(call=1e-4, message=1e-5, byte=1e-9), 1)
    (0.1, 'own work')
    """
    others = num_ranks - 1
    share = others / num_ranks
    byte = max(swap.byte, 1 / NETWORK_BYTES_PER_SECOND)
    calls = _NUM_CALLS * swap.call if others else 0.0
    messages = (_ALL_TO_ALLS + 2 * _ALL_REDUCES) * others * swap.message
    rows = step.num_ids * (_ID_BYTES + 2 * _FLOAT_BYTES * step.dim) * share * byte
    dense = 2 * _FLOAT_BYTES * step.num_weights * share * byte
    parts = {"calls": calls, "messages": messages, "bytes of rows": rows, "bytes of dense weights": dense}
    largest = max(parts, key=lambda name: parts[name]) if others else "own work"
    return step.own_seconds + sum(parts.values()), largest


def growth(step: Step, swap: Swap) -> dict[str, Any]:
    """Return the model and its predictions, for a report."""
    predictions = []
    for num_ranks in NUM_RANKS:
        seconds, largest = seconds_of(step, swap, num_ranks)
        predictions.append(
            {
                "num_ranks": num_ranks,
                "step_seconds": seconds,
                "samples_per_second": num_ranks * step.batch_size / seconds,
                "efficiency": step.own_seconds / seconds,
                "most_time_beyond_own_work": largest,
            }
        )
    return {"swap_seconds": asdict(swap), "step": asdict(step), "predictions": predictions}
