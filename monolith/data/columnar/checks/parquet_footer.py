"""The footer of a Parquet file has no checksum: what it says is held against itself and against what is read."""

from collections.abc import Iterable
from typing import Any

from monolith.data.columnar.arrow import arrow
from monolith.data.columnar.arrow_types import is_list, plain_type


def check_row_count(file: Any) -> None:
    """Check that the row groups have as many rows as the file; ArrowInvalid if not."""
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    _require(sum(group.num_rows for group in groups) == file.metadata.num_rows, "its row groups do not add up")


def check_chunks(file: Any, group: int, names: Iterable[str]) -> None:
    """Check that the chunks of these columns in a row group are theirs and have bytes of their own.

    Only for columns of which something was read: pyarrow ends the process where it looks at some damaged chunks here,
    and raises an error where it reads from them.

    Raises:
        ArrowInvalid: The footer contradicts itself.
    """
    taken = []
    for place in (place for leaves in _leaves(file, names).values() for place in leaves):
        chunk, column = file.metadata.row_group(group).column(place), file.schema.column(place)
        is_same = (chunk.path_in_schema, chunk.physical_type) == (column.path, column.physical_type)
        _require(is_same, f"a column chunk of {column.path!r} says it is {chunk.path_in_schema!r}")
        taken.append(_bytes_of(chunk))
    taken.sort()
    for (_, end), (begin, _) in zip(taken, taken[1:], strict=False):
        _require(end <= begin, "two column chunks have the same bytes")


def list_sizes(file: Any, group: int, names: Iterable[str]) -> dict[str, int]:
    """Return how many values the footer says the lists of a row group have, by column; see `list_size`.

    As for `check_chunks`, something must have been read of these columns.
    """
    chunks = file.metadata.row_group(group)
    return {
        name: chunks.column(leaves[0]).num_values
        for name, leaves in _leaves(file, names).items()
        if len(leaves) == 1 and is_list(plain_type(file.schema_arrow.field(name).type))
    }


def list_size(lists: Any) -> int:
    """Return the values of lists as Parquet counts them: a missing or empty list is one.

    >>> import pyarrow
    >>> list_size(pyarrow.array([[1, 2], [], None, [3]]))
    5
    """
    compute = arrow("compute")
    lengths = compute.fill_null(compute.list_value_length(lists), 0)
    return int(compute.sum(compute.max_element_wise(lengths, 1)).as_py() or 0)


def _leaves(file: Any, names: Iterable[str]) -> dict[str, list[int]]:
    """Return the places of the columns of numbers or bytes that each column is stored as."""
    paths = [file.schema.column(place).path for place in range(len(file.schema))]
    return {
        name: [place for place, path in enumerate(paths) if path == name or path.startswith(f"{name}.")]
        for name in names
    }


def _bytes_of(chunk: Any) -> tuple[int, int]:
    begin = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset:
        begin = min(begin, chunk.dictionary_page_offset)
    return begin, begin + chunk.total_compressed_size


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise arrow().ArrowInvalid(problem)
