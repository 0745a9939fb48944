"""Names of many files in few words: placeholders for days, hours and numbers, and globs."""

import glob
import itertools
import os
import re
import warnings
from collections.abc import Iterable
from datetime import datetime, timedelta

import fsspec

MAX_PATTERNS = 1_000_000
"""More names than this from one pattern are taken for a slip of the pen."""

_PLACEHOLDER = re.compile(r"\{(INT|DATE)\(([^()]*)\)\}")
_DATE_FORMATS = {8: ("%Y%m%d", timedelta(days=1)), 10: ("%Y%m%d%H", timedelta(hours=1))}


def is_remote(path: str) -> bool:
    """Return whether a path is a URL that fsspec opens, such as s3://bucket/key."""
    return "://" in path


def expand_placeholders(pattern: str) -> list[str]:
    """Return a pattern with every {INT(a,b)} and {DATE(a,b)} filled in, in order; globs stay as they are.

    INT counts from a to b; a first number with leading zeros gives its width to all. DATE takes 8 digits for days or
    10 for hours. Both ends are included, and several placeholders give every combination.

    >>> expand_placeholders("log_{DATE(20240228,20240301)}/part_{INT(0,1)}")[:3]
    ['log_20240228/part_0', 'log_20240228/part_1', 'log_20240229/part_0']
    >>> expand_placeholders("{INT(08,10)}"), expand_placeholders("{DATE(2024010123,2024010200)}")
    (['08', '09', '10'], ['2024010123', '2024010200'])
    """
    parts = _PLACEHOLDER.split(pattern)
    choices = [_values(kind, bounds, pattern) for kind, bounds in zip(parts[1::3], parts[2::3], strict=True)]
    count = 1
    for values in choices:
        count *= len(values)
    if count > MAX_PATTERNS:
        raise ValueError(f"pattern {pattern!r} stands for {count} names, more than {MAX_PATTERNS}; narrow its ranges")
    texts = parts[::3]
    return [
        texts[0] + "".join(value + text for value, text in zip(values, texts[1:], strict=True))
        for values in itertools.product(*choices)
    ]


def expand_patterns(patterns: str | Iterable[str]) -> list[str]:
    """Return the files that patterns match, sorted, each once.

    A pattern is a path or an fsspec URL; it may hold placeholders (`expand_placeholders`) and globs (``*``, ``?``,
    ``[ab]``, ``**``). One warning names what matches nothing.

    Raises:
        FileNotFoundError: No pattern matches a file.
    """
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    found = {pattern: _match(pattern) for each in given for pattern in expand_placeholders(each)}
    files = {file for matches in found.values() for file in matches}
    if not files:
        raise FileNotFoundError(f"no match files for the patterns {', '.join(map(repr, given)) or '(none were given)'}")
    if missing := [pattern for pattern, matches in found.items() if not matches]:
        count = f"; {len(missing)} of {len(found)} patterns match none" if len(missing) > 1 else ""
        warnings.warn(f"pattern {missing[0]!r} matches no file{count}", stacklevel=2)
    return sorted(files)


def gen_patterns(
    input_path: str,
    start_date: int | str,
    start_hour: int | None = None,
    end_date: int | str | None = None,
    end_hour: int | None = None,
    is_hourly: bool = False,
    wildcard: str = "*",
) -> list[str]:
    """Return one pattern per day, ``path/YYYYMMDD/<wildcard>``, or per hour, ``path/YYYYMMDD/HH<wildcard>``.

    The end is not included; a missing hour is 0, so hourly patterns end before the day `end_date` begins.

    >>> gen_patterns("logs", 20231231, end_date=20240102)
    ['logs/20231231/*', 'logs/20240101/*']
    >>> gen_patterns("logs", 20240101, 23, 20240102, 1, is_hourly=True, wildcard="/*.pb")
    ['logs/20240101/23/*.pb', 'logs/20240102/00/*.pb']
    """
    if end_date is None:
        raise ValueError("end_date is missing: the day before which the patterns end, as YYYYMMDD")
    if not is_hourly and (start_hour or end_hour):
        warnings.warn("start_hour and end_hour say nothing without is_hourly=True", stacklevel=2)
        start_hour = end_hour = 0
    begin = _hour_of("start", start_date, start_hour or 0)
    end = _hour_of("end", end_date, end_hour or 0)
    if begin >= end:
        raise ValueError(f"the range from {begin} to {end} is empty; its end is not included")
    step, form = (timedelta(hours=1), "%Y%m%d/%H") if is_hourly else (timedelta(days=1), "%Y%m%d/")
    folder = input_path.rstrip("/")
    return [f"{folder}/{time.strftime(form)}{wildcard}" for time in _times(begin, end - step, step)]


def _values(kind: str, bounds: str, pattern: str) -> list[str]:
    first, comma, last = (part.strip() for part in bounds.partition(","))
    if not comma or not (first.isdecimal() and last.isdecimal()):
        raise ValueError(f"pattern {pattern!r}: {{{kind}({bounds})}} must have two whole numbers, as in {kind}(0,9)")
    return _dates(first, last, pattern) if kind == "DATE" else _numbers(first, last, pattern)


def _numbers(first: str, last: str, pattern: str) -> list[str]:
    begin, end = int(first), int(last)
    if begin > end or end - begin >= MAX_PATTERNS:
        raise ValueError(f"pattern {pattern!r}: INT({first},{last}) must rise, and not by {MAX_PATTERNS} or more")
    width = len(first) if first.startswith("0") else 1
    return [f"{number:0{width}d}" for number in range(begin, end + 1)]


def _dates(first: str, last: str, pattern: str) -> list[str]:
    if len(first) != len(last) or len(first) not in _DATE_FORMATS:
        raise ValueError(f"pattern {pattern!r}: DATE({first},{last}) takes 8 digits (days) or 10 (hours) at both ends")
    form, step = _DATE_FORMATS[len(first)]
    try:
        begin, end = datetime.strptime(first, form), datetime.strptime(last, form)
    except ValueError as error:
        raise ValueError(f"pattern {pattern!r}: DATE({first},{last}) is no pair of dates ({error})") from None
    if begin > end:
        raise ValueError(f"pattern {pattern!r}: DATE({first},{last}) ends before it begins")
    return [time.strftime(form) for time in _times(begin, end, step)]


def _times(begin: datetime, last: datetime, step: timedelta) -> list[datetime]:
    return [begin + i * step for i in range((last - begin) // step + 1)]


def _hour_of(name: str, date: int | str, hour: int) -> datetime:
    try:
        return datetime.strptime(f"{date}{hour:02d}", "%Y%m%d%H")
    except ValueError:
        raise ValueError(
            f"{name}_date and {name}_hour must be YYYYMMDD and 0 to 23, got {date!r} and {hour!r}"
        ) from None


def _match(pattern: str) -> list[str]:
    if not is_remote(pattern):
        return [path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path)]
    filesystem, path = fsspec.core.url_to_fs(pattern)
    found = filesystem.glob(path, detail=True)
    return [str(filesystem.unstrip_protocol(name)) for name, about in found.items() if about["type"] != "directory"]
