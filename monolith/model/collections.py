"""Named lists of things that belong to the model being built, kept for later readers."""

import logging
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

_COLLECTIONS: dict[str, list[Any]] = defaultdict(list)
_log = logging.getLogger(__name__)


def add_to_collections(names: str | Iterable[str], value: Any) -> None:
    """Append a value to the named lists; an empty list, None and the like are left out, numbers and texts never."""
    if not isinstance(value, bool | int | float | str) and not value:
        _log.info("value is %s, skip", value)
        return
    for name in [names] if isinstance(names, str) else names:
        _COLLECTIONS[name].append(value)


def get_collection(name: str) -> list[Any] | None:
    """Return what was added under a name, in order; None if nothing was."""
    return list(_COLLECTIONS[name]) if _COLLECTIONS.get(name) else None


def clear_collections() -> None:
    """Forget everything that was added."""
    _COLLECTIONS.clear()
