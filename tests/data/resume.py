"""The promise every source keeps: stop anywhere, restore, and the rest is what it would have been."""

import json
from collections.abc import Callable

from monolith.data import Batch, Source


def as_values(batch: Batch) -> tuple:
    columns = {name: (str(column.dtype), column.tolist()) for name, column in batch.columns.items()}
    return batch.partition, batch.first, batch.last, columns


def assert_resume_is_exact(source_factory: Callable[[], Source]) -> None:
    """Stop after every number of batches; a fresh source, restored, must yield exactly the others."""
    whole = [as_values(batch) for batch in source_factory()]
    assert whole, "a source without batches shows nothing"
    for stop_after in range(len(whole) + 1):
        before = source_factory()
        batches = iter(before)
        seen = [as_values(next(batches)) for _ in range(stop_after)]
        state = json.loads(json.dumps(before.state()))
        after = source_factory()
        after.restore(state)
        assert after.state() == state
        assert seen + [as_values(batch) for batch in after] == whole
