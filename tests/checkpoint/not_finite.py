"""Checkpoints with rows that are not finite, as runs wrote them before steps were checked."""

import struct
from pathlib import Path

from monolith._core import native
from tests.checkpoint.crafted_tables import TableFile
from tests.checkpoint.made_snapshots import rewrite_manifest

NAN, INFINITY = struct.pack("<f", float("nan")), struct.pack("<f", float("inf"))


def ruin(path: Path, id_: int, place: int, value: bytes = NAN) -> None:
    """Put a value into a row of a table file of one shard, with all checksums right; `place` counts floats."""
    file = TableFile.read(path)
    block = next(one for one in file.blocks if id_ in one.ids)
    row = block.ids.index(id_)
    block.rows[row] = block.rows[row][: 4 * place] + value + block.rows[row][4 * place + 4 :]
    path.write_bytes(bytes(file))


def ruin_row(snapshot: Path, table: str, id_: int, place: int = 0, value: bytes = NAN) -> None:
    """Do the same in a snapshot or delta, and let its manifest agree."""
    (path,) = (snapshot / "tables").glob(f"{table}-*")
    ruin(path, id_, place, value)
    name = str(path.relative_to(snapshot))

    def agree(values):
        values["files"][name]["crc32c"] = native.crc32c(path.read_bytes())

    rewrite_manifest(snapshot, agree)
