"""Walk over all rows of a table, as EntryDump messages."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from monolith.embedding.table import Table
from monolith.protos.embedding_hash_table_pb2 import EntryDump


def iterate_table_and_apply(table: Table, apply_fn: Callable[[list[bytes]], object], *, limit: int = 1000) -> None:
    """Call `apply_fn` with serialized EntryDumps, ids included, at most `limit` at a time, until every row was seen.

    It stops early if `apply_fn` returns False. Rows erased on the way are left out. The order is that of table files.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    for ids, _ in table.items():
        for first in range(0, len(ids), limit):
            part = ids[first : first + limit]
            entries = zip(part.tolist(), table.lookup_entry(part), strict=True)
            dumps = [_with_id(id_, entry) for id_, entry in entries if entry]
            if dumps and apply_fn(dumps) is False:
                return


def extract_slot_from_entry(entries: Sequence[bytes], fid_v2: bool = True) -> Tensor:
    """Return the slot of each serialized EntryDump's id (int32); without `fid_v2`, ids have the older encoding.

    >>> extract_slot_from_entry([EntryDump(id=3 << 48).SerializeToString()])
    tensor([3], dtype=torch.int32)
    """
    shift, mask = (48, (1 << 15) - 1) if fid_v2 else (54, (1 << 10) - 1)
    return torch.tensor([EntryDump.FromString(entry).id >> shift & mask for entry in entries], dtype=torch.int32)


def _with_id(id_: int, entry: bytes) -> bytes:
    dump = EntryDump.FromString(entry)
    dump.id = id_
    return dump.SerializeToString()
