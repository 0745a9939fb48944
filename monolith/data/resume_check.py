"""The promise every source keeps, as a check: stop anywhere, restore, and the rest is what it would have been."""

import json
from collections.abc import Callable
from typing import Any

from monolith.data.batch import Batch
from monolith.data.source import Source
from monolith.tensors import Ragged


def batch_values(batch: Batch) -> tuple[Any, ...]:
    """Return a batch as plain Python values that compare."""
    columns = {
        name: ("ragged", str(column.values.dtype), column.to_list())
        if isinstance(column, Ragged)
        else (str(column.dtype), column.tolist())
        for name, column in batch.columns.items()
    }
    return batch.partition, batch.first, batch.last, columns


def assert_resume_is_exact(make_source: Callable[[], Source], *, max_batches: int = 1000) -> None:
    """Stop after every number of batches; a fresh source, restored, must yield exactly the others.

    Args:
        make_source: Returns a new source that stands at the beginning.
        max_batches: A source that yields more is not looked at beyond; for sources that never end.

    Raises:
        AssertionError: With the number of batches after which the rest differs.
    """
    whole, states = _run(make_source(), max_batches)
    if not whole:
        raise AssertionError("a source without batches shows nothing")
    for stop_after, state in enumerate(states):
        resumed = make_source()
        resumed.restore(state)
        if resumed.state() != state:
            raise AssertionError(f"after {stop_after} batches: restored to {state}, it says {resumed.state()}")
        rest, _ = _run(resumed, max_batches - stop_after)
        if rest != whole[stop_after:]:
            where = next((i for i, (a, b) in enumerate(zip(rest, whole[stop_after:], strict=False)) if a != b), None)
            got = f"{len(rest)} batches where {len(whole) - stop_after} were left" if where is None else rest[where]
            expected = None if where is None else whole[stop_after + where]
            raise AssertionError(f"resumed after {stop_after} batches: got {got}, expected {expected}")


def _run(source: Source, max_batches: int) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """Return the batches, and the position before each and after the last; positions travel as JSON."""
    batches, states = [], [_as_json(source)]
    if max_batches > 0:
        for batch in source:
            batches.append(batch_values(batch))
            states.append(_as_json(source))
            if len(batches) == max_batches:
                break
    return batches, states


def _as_json(source: Source) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(json.dumps(source.state()))
    return value
