"""Checks of positions that come back from a file."""

from collections.abc import Mapping
from typing import Any


def check_position(state: Mapping[str, Any], owner: str, **kinds: type) -> None:
    """Reject a state that has other keys or types than its owner writes; numbers must not be negative.

    >>> check_position({"rows": -1}, "a re-batched source", rows=int)
    Traceback (most recent call last):
        ...
    ValueError: the state of a re-batched source has the keys rows; rows must be an int >= 0, got -1
    """
    keys = f"the state of {owner} has the keys {', '.join(kinds)}"
    if set(state) != set(kinds):
        raise ValueError(f"{keys}; got {', '.join(map(str, state)) or 'none'}: it is the state of another source")
    for name, kind in kinds.items():
        value = state[name]
        if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
            raise ValueError(f"{keys}; {name} must be a {kind.__name__}, got {value!r}")
        if isinstance(value, int) and value < 0:
            raise ValueError(f"{keys}; {name} must be an int >= 0, got {value}")
