"""Lines of JSON, checked to be an object each before pyarrow parses them."""

from typing import Any

import numpy as np

from monolith.data.columnar.column_error import ColumnError

_OPEN, _CLOSE = ord("{"), ord("}")


def check_objects(data: bytes, ends: np.ndarray[Any, np.dtype[np.int64]]) -> None:
    r"""Check that every line that is not blank begins with "{" and ends with "}".

    pyarrow takes any white space for the end of a value, and ends the process at a first value of null. Where this
    check holds, no object goes on in the next line: then as many objects as lines are one object per line.

    >>> check_objects(b'{"uid": 7}\nnull\n', np.array([11, 16]))
    Traceback (most recent call last):
    monolith.data.columnar.column_error.ColumnError: a line must be one JSON object

    Args:
        data: The lines.
        ends: For each line, the place behind it and behind what ends it.

    Raises:
        ColumnError: A line is something else.
    """
    if not data:
        return
    codes = np.frombuffer(data, np.uint8)
    starts = np.concatenate([[0], ends[:-1]])
    last = ends - 1 - (codes[np.maximum(ends, 1) - 1] == ord("\n"))
    is_plain = (last > starts) & (codes[np.minimum(starts, len(codes) - 1)] == _OPEN) & (codes[last] == _CLOSE)
    for number in np.flatnonzero(~is_plain):
        line = data[starts[number] : ends[number]].strip()
        if line and not (line[0] == _OPEN and line[-1] == _CLOSE):
            raise ColumnError("a line must be one JSON object", row=int(number))
