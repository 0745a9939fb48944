"""Requests that a version is warmed up with, without those that name an id that must go."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from monolith.errors import CorruptFileError
from monolith.export.warm_up.request_file import requests_to_bytes
from monolith.features.string_hash import hash_bytes, text_bytes

IdsByFeature = Mapping[str, tuple[str, frozenset[int]]]
"""By input of the model: its table, and the ids that must go."""


def ids_in_requests(path: Path, ids: IdsByFeature) -> dict[str, set[int]]:
    """Return the ids that some request names, by table."""
    found: dict[str, set[int]] = {}
    for request in _requests(path):
        for table, id_ in _named(request, ids):
            found.setdefault(table, set()).add(id_)
    return found


def requests_without(path: Path, ids: IdsByFeature) -> bytes:
    """Return the file without the requests that name one of the ids."""
    return requests_to_bytes(one for one in _requests(path) if not any(_named(one, ids)))


def _requests(path: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} has a line that is no request: {error}") from error


def _named(request: Any, ids: IdsByFeature) -> Iterator[tuple[str, int]]:
    """Yield the ids that a request in TensorFlow Serving's form names, each with its table."""
    if isinstance(request, list):
        for one in request:
            yield from _named(one, ids)
    if not isinstance(request, dict):
        return
    for name, value in request.items():
        if name in ids:
            table, wanted = ids[name]
            yield from ((table, id_) for one in _values(value) for id_ in _ids_of(one) & wanted)
        else:
            yield from _named(value, ids)


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _values(one)
    else:
        yield value


def _ids_of(value: Any) -> set[int]:
    """Return the ids that a value may stand for: a number itself, and of a text its hash."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return set()
    return {hash_bytes(text_bytes(value)), *({value} if isinstance(value, int) else ())}
