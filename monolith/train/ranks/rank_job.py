"""RankJob: what the ranks of a synchronous job have in common, and how rank 0 reaches their rows."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from monolith.model import LookupPlan, MonolithModel
from monolith.parallel import RetryConfig
from monolith.parallel.ranks import Exchange
from monolith.train.ranks.pipeline import Overlap
from monolith.wire import SharedSecret, TlsConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class RankServers:
    """The parameter servers that hold the rows of ranks."""

    find: Callable[[], list[str]]
    """Waits for them, and returns their addresses in order."""

    folder: Path
    """Where generations of the job are counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankJob:
    """What every rank of a job needs to know."""

    secret: SharedSecret = field(repr=False)
    tls: TlsConfig | None = None
    listen_at: str = "127.0.0.1:0"
    """Where rank 0 reaches the rows of this rank, to save them."""

    insecure: bool = False
    """Others may connect to it without TLS; they still prove that they know the secret."""

    servers: RankServers | None = None
    """Where the rows are, if not on the ranks."""

    half: bool = False
    """Rows and their gradients travel as fp16 between ranks and servers; between ranks they never do."""

    retry: RetryConfig = field(default_factory=RetryConfig)
    overlap: Overlap = field(default_factory=Overlap)
    background: Exchange | None = field(default=None, repr=False)
    """For what overlaps with computing, if anything does."""

    averages_rows: bool = True
    """Gradients of rows are averaged over the ranks, as those of weights are; otherwise they are added up."""


def check_same_model(exchange: Exchange, plan: LookupPlan, model: MonolithModel) -> None:
    """Raise a ValueError on every rank, with the name of a table or weight that differs between two."""
    weights = {name: list(one.shape) for name, one in model.state_dict().items()}
    check_same(exchange, {"lookup plan": json.loads(plan.to_json()), "weights": weights})


def check_same(exchange: Exchange, own: Mapping[str, Any]) -> None:
    """Raise a ValueError on every rank, with the name of a value that differs between two."""
    said = [json.loads(one) for one in exchange.gather_texts(json.dumps(own, default=str))]
    for rank, values in enumerate(said):
        for name, value in said[0].items():
            if values.get(name) != value:
                place, first, other = _difference(name, value, values.get(name))
                raise ValueError(
                    f"{place} is {first} on rank 0 and {other} on rank {rank}; all ranks of a job have the same: "
                    "start them with the same model and settings"
                )


def _difference(name: str, first: Any, other: Any) -> tuple[str, str, str]:
    """Return where two JSON values differ, and both values there."""
    if isinstance(first, dict) and isinstance(other, dict):
        for key in sorted({*first, *other}):
            if first.get(key) != other.get(key):
                return _difference(f"{name} / {key}", first.get(key), other.get(key))
    if isinstance(first, list) and isinstance(other, list) and len(first) == len(other):
        for index, (one, two) in enumerate(zip(first, other, strict=True)):
            if one != two:
                return _difference(f"{name} / {index}", one, two)
    return name, repr(first)[:200], repr(other)[:200]
