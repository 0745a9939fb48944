"""The columns of a batch as `model_fn` gets them: a name that is not there is an error that says which names are."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from monolith.data import Column


class BatchColumns(dict[str, Any]):
    """Columns by name.

    >>> BatchColumns(uid=1, label=2)["lable"]
    Traceback (most recent call last):
        ...
    KeyError: "there is no column 'lable'; did you mean 'label'? The columns are label, uid"
    """

    def __missing__(self, name: str) -> Any:
        close = get_close_matches(str(name), self, n=len(self) or 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        rest = [one for one in self if one not in close]
        raise KeyError(f"there is no column {name!r}; {hint}The columns are {', '.join([*close, *rest])}")


class ColumnsRead(BatchColumns):
    """Columns that remember which of them were read."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        """Take the columns; nothing is read yet."""
        super().__init__(columns)
        self.names_read: dict[str, None] = {}
        """In the order of reading."""

    def __getitem__(self, name: str) -> Any:
        """Return a column."""
        value = super().__getitem__(name)
        self.names_read[name] = None
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """Return a column, or the default."""
        return self[name] if name in self else default


class ColumnsToServe(BatchColumns):
    """Columns that an export can feed to the dense part; another one of the source says why it cannot."""

    def __init__(self, columns: Mapping[str, Any], lists: frozenset[str]) -> None:
        """Take the columns, and the names of the columns that hold lists."""
        super().__init__(columns)
        self._lists = lists

    def get(self, name: str, default: Any = None) -> Any:
        """Return a column, or the default if the source does not have it."""
        return self[name] if name in self or name in self._lists else default

    def __missing__(self, name: str) -> Any:
        if name in self._lists:
            raise ValueError(not_served([name]))
        return super().__missing__(name)


def not_served(names: list[str]) -> str:
    """Return why predictions that read these columns, which hold lists, cannot be exported, and the way out."""
    return (
        f"the predictions read the values of {', '.join(map(repr, names))}, of which events have different numbers; a "
        "served model gets only the rows that such a column looks up. Read it through lookup_embedding_slice, or only "
        "if mode is not PREDICT, or give it a fixed number of values, such as int64[20]"
    )
