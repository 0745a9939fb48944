"""Nested structures of lists, tuples and dicts."""

from collections.abc import Callable
from typing import Any


def map_leaves(nested: Any, action: Callable[[Any], Any]) -> Any:
    """Return a structure of the same shape with `action(leaf)` for each leaf; None stays None.

    >>> map_leaves({"a": [1, (2, None)]}, lambda leaf: leaf * 10)
    {'a': [10, (20, None)]}
    """
    if nested is None:
        return None
    if isinstance(nested, dict):
        return {key: map_leaves(value, action) for key, value in nested.items()}
    if isinstance(nested, list):
        return [map_leaves(value, action) for value in nested]
    if isinstance(nested, tuple):
        values = [map_leaves(value, action) for value in nested]
        return type(nested)(*values) if hasattr(nested, "_fields") else tuple(values)
    return action(nested)
