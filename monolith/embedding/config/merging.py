"""Features whose tables are alike share one table; this names it.

The names are the original's, so that its snapshots restore.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import md5

from monolith.embedding.config.instance import HashTableConfigInstance

_NUMBERED_FEATURE = re.compile(r"fc_(slot_[0-9]*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class MergedTable:
    """A table and the features that share it."""

    name: str
    """Name of the table, made from the names of its features."""

    features: tuple[str, ...]
    """The features, sorted."""

    config: HashTableConfigInstance
    """What the table is made of, with every older name its rows may be found under."""


def merged_table_name(features: Iterable[str]) -> str:
    """Return the name of the table that the features share: the MD5 of their sorted, comma-joined names.

    >>> merged_table_name(["slot1", "slot0"])
    'e21904dd414d1780e5fc904866dc69c2'
    """
    return _digest(_sorted_names(features))


def extra_restore_names(features: Iterable[str]) -> list[str]:
    """Return older names of the table: what it was called when feature ``fc_slot_N`` was still ``slot_N``.

    >>> extra_restore_names(["fc_slot_0"]) == [merged_table_name(["slot_0"])]
    True
    >>> extra_restore_names(["uid"])
    []
    """
    names = _sorted_names(features)
    older = [_NUMBERED_FEATURE.sub(r"\1", name) if _NUMBERED_FEATURE.fullmatch(name) else name for name in names]
    # Dropping "fc_" may change the sorted order; snapshots may carry the name in either.
    candidates = dict.fromkeys((_digest(older), _digest(sorted(older))))
    return [name for name in candidates if name != _digest(names)]


def merge_tables(configs: Mapping[str, HashTableConfigInstance]) -> list[MergedTable]:
    """Return one table per distinct config, each with the features that asked for it, ordered by first feature.

    Args:
        configs: the table each feature wants, by feature name.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for feature in sorted(configs):
        groups[str(configs[feature])].append(feature)
    return [_merge(features, [configs[feature] for feature in features]) for features in groups.values()]


def _merge(features: list[str], configs: list[HashTableConfigInstance]) -> MergedTable:
    older = dict.fromkeys(extra_restore_names(features))
    for config in configs:
        older.update(dict.fromkeys(config.extra_restore_names))
    first = configs[0]
    return MergedTable(
        name=merged_table_name(features),
        features=tuple(features),
        config=HashTableConfigInstance(first.table_config, first.learning_rate_fns, list(older)),
    )


def _sorted_names(features: Iterable[str]) -> list[str]:
    names = sorted(features)
    if not names:
        raise ValueError("a merged table needs at least one feature, got none")
    return names


def _digest(names: list[str]) -> str:
    # A name, not a protection: the algorithm is fixed by snapshots that exist.
    return md5(",".join(names).encode(), usedforsecurity=False).hexdigest()
