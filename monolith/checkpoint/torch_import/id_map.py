"""Which id each row of a weight belongs to."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from monolith.errors import CorruptFileError


@dataclass(frozen=True, slots=True)
class IdMap:
    """Ids and the number of the row of each; several ids may share a row, as they do where ids were hashed."""

    ids: NDArray[np.int64]
    """Each once."""

    rows: NDArray[np.int64]
    """Row of each id."""


def read_id_map(path: Path, num_rows: int) -> IdMap:
    """Return the map that a file holds for a weight of `num_rows` rows.

    `.npy`: the ids in order of rows. `.csv`: a column of ids in order of rows, or two columns, row and id, in this
    order unless a first line names them `row` and `id`.

    Raises:
        CorruptFileError: The file is none of these.
        ValueError: An id comes twice, or a row is not one of the weight's.
    """
    table = _read_npy(path) if path.suffix == ".npy" else _read_csv(path)
    ids, rows = (table[:, 0], np.arange(len(table))) if table.shape[1] == 1 else (table[:, 1], table[:, 0])
    if table.shape[1] == 1 and len(ids) != num_rows:
        raise ValueError(f"{path} has {len(ids)} ids for a weight of {num_rows} rows; it must have one for each")
    if len(rows) and not 0 <= rows.min() <= rows.max() < num_rows:
        raise ValueError(f"{path} names rows {rows.min()} to {rows.max()} of a weight of {num_rows} rows")
    unique, counts = np.unique(ids, return_counts=True)
    if len(unique) != len(ids):
        raise ValueError(f"{path} names id {unique[counts > 1][0]} more than once")
    return IdMap(np.ascontiguousarray(ids), np.ascontiguousarray(rows))


def _read_npy(path: Path) -> NDArray[np.int64]:
    try:
        # Mapped, not read: a header may claim any number of ids, a file has as many as it has.
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise CorruptFileError(f"{path} is no array of ids: {error}") from error
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise CorruptFileError(f"{path} has {values.dtype} values of shape {values.shape}; ids are integers in a row")
    # An unsigned id keeps its 64 bits.
    return np.asarray(values).astype(np.int64, casting="unsafe").reshape(-1, 1)


def _read_csv(path: Path) -> NDArray[np.int64]:
    try:
        with open(path, newline="", encoding="utf-8") as file:
            lines = [line for line in csv.reader(file) if line]
        order = slice(None)
        if lines and not _is_number(lines[0][0]):
            header = [name.strip().lower() for name in lines.pop(0)]
            if header not in (["id"], ["row", "id"], ["id", "row"]):
                raise ValueError(f"its columns are {header}; they must be id, or row and id")
            order = slice(None, None, -1 if header == ["id", "row"] else 1)
        width = len(lines[0]) if lines else 1
        if width not in (1, 2) or any(len(line) != width for line in lines):
            raise ValueError("it must have one column of ids, or two of rows and ids")
        table = np.array([[int(value) for value in line] for line in lines], dtype=np.int64)
        return table.reshape(-1, width)[:, order]
    except (ValueError, OverflowError, csv.Error) as error:
        raise CorruptFileError(f"{path} is no map of ids: {error}") from error


def _is_number(text: str) -> bool:
    return text.strip().lstrip("+-").isdigit()
