"""Every mutation in its turn: do the tests that are named notice it."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.mutation.catalogue import Mutation
from tests.mutation.tree_copy import TESTS_FAILED, TESTS_PASSED, BuildError, TreeCopy

Outcome = Literal["caught", "survived", "broken"]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of one mutation."""

    mutation: Mutation
    outcome: Outcome
    seconds: float
    """How long its tests ran, and the build of the native core."""

    detail: str = ""
    """Why an entry is broken, or how a mutation was caught if not by a failing test."""


def run_campaign(
    tree: TreeCopy, mutations: Iterable[Mutation], *, seed: int, seconds: float, on_result: Callable[[Result], None]
) -> list[Result]:
    """Try every mutation, in the random order of `seed`; `seconds` is the time limit for the tests of one."""
    order = list(mutations)
    random.Random(seed).shuffle(order)
    order.sort(key=lambda mutation: mutation.is_native)  # last and together: one build leads from each to the next
    failing = _failing_without_mutation(tree, order, seconds)
    results = []
    for mutation in order:
        started = time.perf_counter()
        outcome, detail = _try(tree, mutation, failing, seconds)
        results.append(Result(mutation=mutation, outcome=outcome, detail=detail, seconds=time.perf_counter() - started))
        on_result(results[-1])
    return results


def _failing_without_mutation(
    tree: TreeCopy, mutations: Sequence[Mutation], seconds: float
) -> dict[tuple[str, ...], str]:
    """Return the test sets that fail as things are, with what pytest wrote: they can show nothing."""
    sets = list(dict.fromkeys(mutation.tests for mutation in mutations))
    everything = list(dict.fromkeys(name for tests in sets for name in tests))
    if not sets or tree.run_tests(everything, seconds * len(sets))[0] == TESTS_PASSED:
        return {}
    failing = {}
    for tests in sets:
        status, output = tree.run_tests(tests, seconds)
        if status != TESTS_PASSED:
            failing[tests] = f"its tests do not pass without it ({_status(status)}):\n{output}"
    return failing


def _try(
    tree: TreeCopy, mutation: Mutation, failing: dict[tuple[str, ...], str], seconds: float
) -> tuple[Outcome, str]:
    if mutation.tests in failing:
        return "broken", failing[mutation.tests]
    try:
        with tree.mutated(mutation):
            status, output = tree.run_tests(mutation.tests, seconds)
    except (ValueError, FileNotFoundError, BuildError) as error:
        return "broken", str(error)
    if status == TESTS_FAILED:
        return "caught", ""
    if status == TESTS_PASSED:
        return "survived", ""
    # A time limit, or a crash of the native core, is noticed too.
    if status is None or status < 0:
        return "caught", _status(status)
    return "broken", f"pytest could not run its tests ({_status(status)}):\n{output}"


def _status(status: int | None) -> str:
    if status is None:
        return "time limit"
    return f"signal {-status}" if status < 0 else f"status {status}"
