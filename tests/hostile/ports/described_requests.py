"""Requests made from what a server says of itself at /openapi.json, by schemathesis where it is installed."""

import contextlib
import importlib.util
import warnings
from collections.abc import Iterator
from typing import Any

import hypothesis

from tests.hostile.ports.attacked_server import AttackedServer
from tests.patience import PATIENCE_SECONDS


def is_installed() -> bool:
    """Whether this kind of requests can be made here."""
    return importlib.util.find_spec("schemathesis") is not None


def described_requests(server: AttackedServer, seed: int, count: int) -> Iterator[tuple[str, int | None]]:
    """Send about `count` requests, good and bad by the description; yield what each was and its status.

    None stands for a request that no client could send; an operation without a body has few different requests.
    """
    import schemathesis  # noqa: PLC0415  for this kind alone

    url = f"http://127.0.0.1:{server.port}"
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    # Most of the work is in bodies.
    shares = [10 if one.method.lower() == "post" else 1 for one in operations]
    for operation, share in zip(operations, shares, strict=True):
        for mode in schemathesis.GenerationMode:
            max_examples = max(1, round(count / 2 * share / sum(shares)))
            cases = operation.as_strategy(generation_mode=mode)
            yield from ((f"described, {mode.value}", status) for status in _statuses(cases, url, seed, max_examples))


def _statuses(cases: Any, url: str, seed: int, max_examples: int) -> list[int | None]:
    found: list[int | None] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(case=cases)
    def send(case: Any) -> None:
        try:
            found.append(case.call(base_url=url, timeout=PATIENCE_SECONDS).status_code)
        except ValueError:
            found.append(None)

    with warnings.catch_warnings(), contextlib.suppress(hypothesis.errors.Unsatisfiable):  # nothing bad can be said
        warnings.simplefilter("ignore")
        send()
    return found
