"""FeatureList: the text file that says which features a model has and what they are made of.

One entry per line; blank lines and lines that begin with '#' are skipped:

    column_name: uid, gid, label        columns that may be used
    cache_column: gid                   the column that caches go by
    feed_name=user shared=true          lines that begin with "feed"
    cache_name=user capacity=1000       lines that begin with "cache"
    feature_name=fc_uid depend=uid method=Direct slot=1      everything else
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TypeVar

from monolith.features.feature_list_entries import Cache, Entry, Feature, Feed, as_list
from monolith.features.fid import NUM_SLOTS_V2, as_signed, slot_of_v1, slot_of_v2

Default = TypeVar("Default")
EntryType = TypeVar("EntryType", bound=Entry)

_DEFAULT_FILE: ContextVar[str | None] = ContextVar("feature_list", default=None)


@contextmanager
def default_feature_list(fname: str | None) -> Iterator[None]:
    """Let `FeatureList.parse` without a name read this file in the block."""
    token = _DEFAULT_FILE.set(fname)
    try:
        yield
    finally:
        _DEFAULT_FILE.reset(token)


class FeatureList:
    """The features of a model, by name and by slot; made by `parse`, `parse_text` or from entries.

    >>> features = FeatureList.parse_text('''
    ... column_name: uid, gid
    ... feature_name=fc_user depend=uid slot=1
    ... feature_name=fc_user-fc_item depend=uid,gid slot=2
    ... ''')
    >>> features["user"].slot, features["user-item"].slot, features[2].depend
    (1, 2, ('uid', 'gid'))
    >>> FeatureList.parse_text(features.to_text()) == features
    True

    Args:
        column_name: Columns that may be used; none means that nothing is said about them.
        feeds: Values that come with the request, by name.
        caches: Caches, by name.
        features: Features, by the name they are looked up with.
        cache_column: The column that caches go by.
    """

    def __init__(
        self,
        column_name: Iterable[str] = (),
        feeds: Mapping[str, Feed] | None = None,
        caches: Mapping[str, Cache] | None = None,
        features: Mapping[str, Feature] | None = None,
        cache_column: str | None = None,
    ) -> None:
        self.column_name = tuple(column_name)
        self.feeds = dict(feeds or {})
        self.caches = dict(caches or {})
        self.features = dict(features or {})
        self.cache_column = cache_column
        self._by_slot: dict[int, list[Feature]] = {}
        for feature in self.features.values():
            if feature.slot is not None:
                self._by_slot.setdefault(feature.slot, []).append(feature)

    @classmethod
    def parse(cls, fname: str | os.PathLike[str] | None = None, use_old_name: bool = True) -> FeatureList:
        """Return the feature list of a file; while the file stays as it is, the same object each time.

        Args:
            fname: The file; the run's setting `feature_list` if not given.
            use_old_name: Name features as the file does (`fc_user`); otherwise by the stripped name (`user`).

        Raises:
            ValueError: A line cannot be read; the message names the file and the line.
        """
        fname = _DEFAULT_FILE.get() if fname is None else fname
        if fname is None:
            raise ValueError("no feature list to read; name its file here, or feature_list in the settings of the run")
        status = Path(fname).stat()
        return _parse_file(os.path.abspath(fname), use_old_name, status.st_mtime_ns, status.st_size)

    @classmethod
    def parse_text(cls, text: str, use_old_name: bool = True, fname: str = "feature list") -> FeatureList:
        """Return the feature list of a text."""
        columns: tuple[str, ...] = ()
        cache_column: str | None = None
        feeds: dict[str, Feed] = {}
        caches: dict[str, Cache] = {}
        features: dict[str, Feature] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            line = line.strip()
            key, colon, rest = line.partition(":")
            try:
                if not line or line.startswith("#"):
                    continue
                if colon and key.strip() == "column_name":
                    columns = (*columns, *as_list(rest))
                elif colon and key.strip() == "cache_column":
                    cache_column = rest.strip()
                elif line.startswith("feed"):
                    _add(feeds, Feed.from_line(line))
                elif line.startswith("cache"):
                    _add(caches, Cache.from_line(line))
                else:
                    feature = Feature.from_line(line)
                    _add(features, feature, feature.feature_name if use_old_name else feature.name)
            except ValueError as error:
                raise ValueError(f"{fname}, line {number}: {error}") from error
        return cls(columns, feeds, caches, features, cache_column)

    def to_text(self) -> str:
        """Return the text from which `parse_text` makes an equal list; comments are not kept."""
        lines = [f"column_name: {', '.join(self.column_name)}"] if self.column_name else []
        lines += [f"cache_column: {self.cache_column}"] if self.cache_column is not None else []
        entries: list[Entry] = [*self.feeds.values(), *self.caches.values(), *self.features.values()]
        return "".join(f"{line}\n" for line in [*lines, *(entry.to_line() for entry in entries)])

    def write(self, fname: str | os.PathLike[str]) -> None:
        """Write the list to a file that `parse` reads."""
        Path(fname).write_text(self.to_text(), encoding="utf-8")

    def validate(self) -> None:
        """Raise `ValueError` for the first feature that cannot work, with the reason."""
        inputs = {*self.column_name, *self.feeds, *self.features, *(f.name for f in self.features.values())}
        for feature in self.features.values():
            what = f"feature {feature.feature_name!r}"
            if feature.slot is not None and not 0 <= feature.slot < NUM_SLOTS_V2:
                raise ValueError(f"{what}: slot should be less than {NUM_SLOTS_V2}, while got {feature.slot}")
            if feature.input_optional and len(feature.input_optional) != len(feature.depend):
                raise ValueError(
                    f"{what}: input_optional says something about {len(feature.input_optional)} inputs, "
                    f"but it depends on {len(feature.depend)}"
                )
            if self.column_name:
                pairs = zip(feature.depend, feature.depend_strip_prefix, strict=True)
                missing = [column for column, stripped in pairs if not {column, stripped} & inputs]
                if missing:
                    raise ValueError(f"{what}: it depends on {missing[0]!r}, which column_name does not list")

    def __getitem__(self, item: str | int) -> Feature:
        """Return the feature of a name, with or without prefixes, or the first one of a slot.

        Raises:
            LookupError: There is no such feature.
        """
        found = self._find(item)
        if found is None:
            raise LookupError(f"there is no feature {item}")
        return found

    def get(self, item: str | int, default: Default | None = None) -> Feature | Default | None:
        """Return the feature of a name or slot, or the default."""
        found = self._find(item)
        return default if found is None else found

    def get_with_slot(self, slot: int) -> list[Feature]:
        """Return all features of a slot, in the order of the file."""
        return list(self._by_slot.get(slot, ()))

    def get_feature_name_and_slot(self, item: str | int) -> tuple[str, int | None]:
        """Return the name and the slot of the feature that a name or slot stands for."""
        feature = self[item]
        return feature.feature_name, feature.slot

    def names_of_fids(self, fids: Iterable[int], fid_version: int = 2) -> list[str]:
        """Return the names of the features that these fids belong to, by their slots, each name once.

        Raises:
            LookupError: No feature has the slot of a fid.
        """
        slot_of = {1: slot_of_v1, 2: slot_of_v2}[fid_version]
        names: dict[str, None] = {}
        for fid in fids:
            features = self.get_with_slot(slot_of(as_signed(fid)))
            if not features:
                raise LookupError(f"Cannot find feature name for fid: {fid}")
            names.update(dict.fromkeys(feature.feature_name for feature in features))
        return list(names)

    def __contains__(self, item: object) -> bool:
        return isinstance(item, (str, int)) and self._find(item) is not None

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features.values())

    def __len__(self) -> int:
        return len(self.features)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureList) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def _find(self, item: str | int) -> Feature | None:
        if isinstance(item, int):
            return next(iter(self._by_slot.get(item, ())), None)
        # A cross may have a prefix before each of its parts, so every combination is a way to write it.
        parts = [(part, f"f_{part}", f"fc_{part}") for part in item.split("-")]
        if len(parts) > _MAX_PARTS:
            return self.features.get(item)
        writings = [item, f"f_{item}", f"fc_{item}", *map("-".join, product(*parts))]
        return next((self.features[name] for name in writings if name in self.features), None)


# A name of more parts is looked up as it is: the ways to write it grow threefold with each part.
_MAX_PARTS = 8


def _add(entries: dict[str, EntryType], entry: EntryType, name: str | None = None) -> None:
    name = entry.name if name is None else name
    if name in entries:
        raise ValueError(f"{type(entry).__name__.lower()} {name!r} is there twice")
    entries[name] = entry


@lru_cache(maxsize=64)
def _parse_file(fname: str, use_old_name: bool, mtime_ns: int, size: int) -> FeatureList:
    del mtime_ns, size  # part of the key: another content is another list
    return FeatureList.parse_text(Path(fname).read_text(encoding="utf-8"), use_old_name, fname)
