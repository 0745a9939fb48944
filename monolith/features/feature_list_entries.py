"""The entries of a feature list: features, feeds and caches, each one line of `key=value` pairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

_TRUE = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE = frozenset({"0", "false", "f", "no", "n", "off", ""})
_PREFIXES = ("fc_", "f_")
_KEY = re.compile(r"(?:^|\s)(\w+)\s*=")

EntryType = TypeVar("EntryType", bound="Entry")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a feature list."""

    @property
    def name(self) -> str:
        """What the entry is called."""
        raise NotImplementedError

    @classmethod
    def from_line(cls: type[EntryType], line: str) -> EntryType:
        """Return the entry that a line of `key=value` pairs describes; `ValueError` says what is wrong with it."""
        values = parse_pairs(line)
        known = {field.name: field for field in fields(cls)}
        unknown = sorted(values.keys() - known.keys())
        if unknown:
            raise ValueError(f"{cls.__name__} has no field {unknown[0]!r}; its fields are {', '.join(known)}")
        missing = [name for name, field in known.items() if field.default is MISSING and name not in values]
        if missing:
            raise ValueError(f"{cls.__name__} needs {missing[0]!r}")
        return cls(**{name: _READERS[str(known[name].type)](name, text) for name, text in values.items()})

    def to_line(self) -> str:
        """Return the line from which `from_line` makes an equal entry; what has its default value is left out."""
        pairs = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.default is MISSING or value != field.default:
                pairs.append(f"{field.name}={_write(field.name, value)}")
        return " ".join(pairs)


@dataclass(frozen=True, kw_only=True)
class Feature(Entry):
    """A feature: the columns it is made of, and how.

    >>> feature = Feature.from_line("feature_name=fc_user-fc_item depend=f_uid,f_gid method=Combine slot=301")
    >>> feature.name, feature.depend_strip_prefix, feature.slot
    ('user-item', ('uid', 'gid'), 301)
    """

    feature_name: str
    depend: tuple[str, ...] = ()
    method: str | None = None
    slot: int | None = None
    args: tuple[str, ...] = ()
    feature_version: int | None = None
    shared: bool = False
    cache_keys: tuple[str, ...] = ()
    need_raw: bool = False
    feature_id: int | None = None
    input_optional: tuple[bool, ...] = ()
    feature_group: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in lower case, without fc_ or f_ before each part of a cross."""
        return strip_prefix(self.feature_name)

    @property
    def depend_strip_prefix(self) -> tuple[str, ...]:
        """The columns it is made of, written like `name`."""
        return tuple(strip_prefix(column) for column in self.depend)


@dataclass(frozen=True, kw_only=True)
class Feed(Entry):
    """A value that comes with the request."""

    feed_name: str
    shared: bool = False
    feature_id: int | None = None

    @property
    def name(self) -> str:
        """The name of the feed."""
        return self.feed_name


@dataclass(frozen=True, kw_only=True)
class Cache(Entry):
    """A cache of values by a column."""

    cache_name: str
    cache_column: str | None = None
    capacity: int | None = None
    timeout: int | None = None
    cache_type: str | None = None
    cache_key_class: str | None = None

    @property
    def name(self) -> str:
        """The name of the cache."""
        return self.cache_name


def strip_prefix(name: str) -> str:
    """Return a name in lower case, without fc_ or f_ before each of its '-' parts.

    >>> strip_prefix("fc_User-f_item")
    'user-item'
    """
    return "-".join(_strip_part(part) for part in name.split("-")).lower()


def parse_pairs(line: str) -> dict[str, str]:
    """Return the `key=value` pairs of a line; a value ends where the next ` key=` begins, without ',' or ';' behind.

    >>> parse_pairs("feature_name=f_a; args=1, 2 method=Direct")
    {'feature_name': 'f_a', 'args': '1, 2', 'method': 'Direct'}
    """
    keys = list(_KEY.finditer(line))
    if not keys or line[: keys[0].start()].strip():
        raise ValueError(f"a line must consist of key=value pairs, got {line!r}")
    ends = [key.start() for key in keys[1:]] + [len(line)]
    pairs: dict[str, str] = {}
    for key, end in zip(keys, ends, strict=True):
        if key.group(1) in pairs:
            raise ValueError(f"{key.group(1)!r} occurs twice")
        pairs[key.group(1)] = line[key.end() : end].strip().rstrip(",;").strip()
    return pairs


def as_bool(name: str, text: str) -> bool:
    """Return whether the text means true; `ValueError` if it means neither.

    >>> as_bool("shared", "Yes"), as_bool("shared", "0")
    (True, False)
    """
    lower = text.strip().lower()
    if lower not in _TRUE | _FALSE:
        raise ValueError(f"{name} must be one of {', '.join(sorted((_TRUE | _FALSE) - {''}))}, got {text!r}")
    return lower in _TRUE


def as_list(text: str) -> tuple[str, ...]:
    """Return the parts between commas, without space around them; empty ones are left out."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _as_int(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {text!r}") from None


# By the annotation of the field.
_READERS: Mapping[str, Callable[[str, str], Any]] = {
    "str": lambda _, text: text,
    "str | None": lambda _, text: text,
    "int | None": _as_int,
    "bool": as_bool,
    "tuple[str, ...]": lambda _, text: as_list(text),
    "tuple[bool, ...]": lambda name, text: tuple(as_bool(name, part) for part in as_list(text)),
}


def _write(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        parts = [_write(name, part) for part in value]
        if any("," in part or not part for part in parts):
            raise ValueError(f"{name} {value} cannot be written as a list: a part is empty or has a comma")
        return ",".join(parts)
    text = str(value)
    if "\n" in text or text != text.strip().rstrip(",;").strip() or _KEY.search(" " + text):
        raise ValueError(f"{name} {text!r} cannot be written as a value: it would be read as something else")
    return text


def _strip_part(part: str) -> str:
    for prefix in _PREFIXES:
        if part.startswith(prefix):
            return part.removeprefix(prefix)
    return part
