"""Changes of tables, cut into messages of bounded size."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from monolith.delta.messages import DeltaContent
from monolith.embedding.table import Changes, Table
from monolith.wire import Array

ID_BYTES = 8


@dataclass(frozen=True, slots=True)
class DeltaPiece:
    """Some ids of one table that are to be sent, with their rows or as tombstones."""

    table: str
    ids: Tensor
    erased: bool = False


def pieces_of_changes(changes: Mapping[str, Changes]) -> Iterator[DeltaPiece]:
    """Yield what changed, tombstones of all tables first."""
    for table, change in changes.items():
        yield DeltaPiece(table, change.erased, erased=True)
    for table, change in changes.items():
        yield DeltaPiece(table, change.touched)


def pieces_of_tables(tables: Mapping[str, Table]) -> Iterator[DeltaPiece]:
    """Yield every id that has a row while this is read."""
    for name, table in tables.items():
        for ids in table.ids():
            yield DeltaPiece(name, ids)


def parts_of(
    pieces: Iterator[DeltaPiece], tables: Mapping[str, Table], max_bytes: int, *, skip_zero_embedding: bool = False
) -> Iterator[DeltaContent]:
    """Yield contents of at most about `max_bytes` each; rows are read only when their part is asked for.

    With `skip_zero_embedding`, ids whose row is all zeros become tombstones.
    """
    part: list[DeltaPiece] = []
    room = max_bytes
    for piece in pieces:
        bytes_per_id = ID_BYTES + (0 if piece.erased else 4 * tables[piece.table].dim)
        ids = piece.ids
        while len(ids):
            count = room // bytes_per_id
            if count == 0 and part:
                yield _content(part, tables, skip_zero_embedding)
                part, room = [], max_bytes
                continue
            count = max(1, count)  # a row wider than the limit still has to travel
            part.append(DeltaPiece(piece.table, ids[:count], piece.erased))
            room -= min(count, len(ids)) * bytes_per_id
            ids = ids[count:]
    if part:
        yield _content(part, tables, skip_zero_embedding)


def _content(part: list[DeltaPiece], tables: Mapping[str, Table], skip_zero_embedding: bool) -> DeltaContent:
    ids_by_place: dict[tuple[str, bool], list[Tensor]] = {}
    for piece in part:
        ids_by_place.setdefault((piece.table, piece.erased), []).append(piece.ids)
    erased: dict[str, list[Tensor]] = {}
    rows: dict[str, tuple[Array, Array]] = {}
    for (name, is_erased), ids_list in ids_by_place.items():
        ids = torch.cat(ids_list)
        if is_erased:
            erased.setdefault(name, []).append(ids)
            continue
        # A row erased since reads as zero, as it does in serving; its tombstone comes with the next delta.
        values = tables[name].lookup(ids)
        if skip_zero_embedding:
            kept = values.any(dim=1)
            erased.setdefault(name, []).append(ids[~kept])
            ids, values = ids[kept], values[kept]
        rows[name] = ids.numpy(), values.numpy()
    return DeltaContent(rows, {name: torch.cat(parts).numpy() for name, parts in erased.items()})
