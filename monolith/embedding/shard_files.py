"""The files of one table: which belong together, and whether all are there."""

import re
from pathlib import Path

_SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")


def default_num_shards(num_rows: int) -> int:
    """Return how many files a table of this size is written to: one per million rows, 1 to 4.

    >>> [default_num_shards(rows) for rows in (0, 1_500_000, 9_000_000)]
    [1, 1, 4]
    """
    return min(4, max(1, num_rows // 1_000_000))


def find_shard_files(basename: str) -> list[str]:
    """Return the paths of all shards saved under `basename`, in order; files of other names are ignored.

    Raises FileNotFoundError if there are none, and ValueError if some are missing or of another count.
    """
    base = Path(basename)
    found: dict[int, str] = {}
    counts: set[int] = set()
    for path in sorted(base.parent.glob(f"{glob_escape(base.name)}-*")):
        match = _SHARD.search(path.name)
        if match is None or path.name[: match.start()] != base.name:
            continue
        shard, count = int(match[1]), int(match[2])
        counts.add(count)
        if shard >= count:
            raise ValueError(f"shard {shard} exceeds {count} for {path}")
        found[shard] = str(path)
    if not found:
        raise FileNotFoundError(f"there is no shard file for {basename}; looked for {basename}-00000-of-*")
    if len(counts) > 1:
        raise ValueError(f"{basename} has shards of several saves: counts {sorted(counts)}; remove the stale ones")
    missing = sorted(set(range(*counts)) - set(found))
    if missing:
        raise ValueError(f"shard {missing[0]} doesn't show up for {basename}: {len(found)} of {counts.pop()} are there")
    return [found[shard] for shard in sorted(found)]


def glob_escape(name: str) -> str:
    """Return the name with glob's special characters taken literally."""
    return re.sub(r"([*?\[])", r"[\1]", name)
