"""One value or a list of them, as layers take their arguments."""

import copy
from collections.abc import Callable
from typing import Any


def extend_as_list(x: Any, n: int) -> list[Any]:
    """Return `n` values: those of a list or tuple, filled up with None; or copies of one value.

    A longer list stays as it is. (The original failed on a tuple that was too short.)

    >>> extend_as_list(("relu",), 3), extend_as_list("relu", 2)
    (['relu', None, None], ['relu', 'relu'])
    """
    if isinstance(x, list | tuple):
        return list(x) + [None] * (n - len(x)) if len(x) < n or isinstance(x, tuple) else x
    try:
        return [x if i == 0 else copy.deepcopy(x) for i in range(n)]
    except Exception:  # noqa: BLE001 - whatever a class raises that cannot be copied
        return [x] * n


def check_list(
    candidate: list[Any] | None, length_checker: Callable[[int], bool], could_be_none: bool = False
) -> list[Any] | None:
    """Return a list whose length the checker accepts; TypeError for another type, ValueError for another length."""
    if candidate is None and could_be_none:
        return None
    if not isinstance(candidate, list):
        raise TypeError(f"expected a list, got {type(candidate).__name__}")
    if not length_checker(len(candidate)):
        raise ValueError(f"a list of length {len(candidate)} does not fit here: {candidate!r}")
    return candidate


def to_list(x: Any) -> list[Any]:
    """Return a list as it is, anything else (a tuple too) as the one item of a list."""
    return x if isinstance(x, list) else [x]
