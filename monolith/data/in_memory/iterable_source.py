"""IterableSource: anything that yields records or batches, as batches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from monolith.data.batch import Column
from monolith.data.columnar.arrow_columns import Fill, check_fill
from monolith.data.in_memory.counted_items import CountedItems
from monolith.data.in_memory.plain_columns import infer_schema, to_columns
from monolith.data.schema import Schema


class IterableSource(CountedItems):
    """Batches of what a function yields, as a `Source`.

    The position is the number of items, so restoring calls the function again and reads past them: the function must
    yield the same items each time, and a position far on takes as long to restore as it took to reach.

    >>> source = IterableSource(lambda: ({"uid": i, "tags": [i] * i} for i in range(3)), batch_size=2)
    >>> [batch.columns["tags"].to_list() for batch in source]
    [[[], [1]], [[2, 2]]]

    Args:
        make_items: Returns a new iterable of dicts, each a record, or, without `batch_size`, a batch of arrays, tensors
            or lists.
        batch_size: Records per batch; None if items are batches.
        schema: Columns to take, and their types; without it, those of the first item, which is read for that.
        fill_missing: What None reads as, by column, as for `ArraySource`.
        drop_remainder: Leave out a last batch of fewer records.

    Raises:
        ValueError: An item lacks a column, or a value does not fit its type; the message has the item's number.
    """

    def __init__(
        self,
        make_items: Callable[[], Iterable[Mapping[str, Any]]],
        batch_size: int | None = None,
        schema: Schema | None = None,
        *,
        fill_missing: Mapping[str, Fill] | None = None,
        drop_remainder: bool = False,
    ) -> None:
        if not callable(make_items):
            raise TypeError(
                f"make_items must be a function that returns an iterable, got {type(make_items).__name__}; an iterable "
                "can be read only once: wrap it as `lambda: ...`, or give its items to ArraySource"
            )
        self._make_items = make_items
        self._are_records = batch_size is not None
        super().__init__(
            schema or self._infer(),
            items_per_batch=1 if batch_size is None else batch_size,
            drop_remainder=drop_remainder,
        )
        self._fill = check_fill(fill_missing, self.schema)
        self.schema = self.schema.with_missing(self._fill)

    def _begin(self) -> Iterator[Any]:
        return iter(self._make_items())

    def _columns(self, items: list[Any], first: int) -> Mapping[str, Column]:
        try:
            return to_columns(self._gather(items) if self._are_records else _checked(items[0]), self.schema, self._fill)
        except (ValueError, TypeError) as error:
            raise ValueError(f"items {first} to {first + len(items) - 1}: {error}") from error

    def _infer(self) -> Schema:
        first = next(self._begin(), None)
        if first is None:
            raise ValueError("there are no items, which says nothing of their columns; give a schema")
        item = _checked(first)
        return infer_schema({name: [value] for name, value in item.items()} if self._are_records else item)

    def _gather(self, records: list[Any]) -> dict[str, list[Any]]:
        try:
            return {name: [_checked(record)[name] for record in records] for name in self.schema.names}
        except KeyError as error:
            place = next(i for i, record in enumerate(records) if error.args[0] not in record)
            raise ValueError(f"record {place} of these has no {error.args[0]!r}") from None


def _checked(item: Any) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise TypeError(f"items must be dicts of columns, got {type(item).__name__}")
    return item
