"""One row as the EntryDump message of files and tools."""

import struct
from collections.abc import Sequence

from monolith._core import native
from monolith.embedding.config.rules import RULES
from monolith.embedding.config.table import TableConfig
from monolith.protos.embedding_hash_table_pb2 import EntryDump
from monolith.protos.optimizer_dump_pb2 import SingleOptimizerDump

_NO_DUMP = "moving_average"
"""It has no state, and the original keeps no dump of it."""


def entry_bytes(config: TableConfig, entry: native.EntryDump) -> bytes:
    """Return the serialized EntryDump of a row; b"" for an id without one. The id itself is not part of it."""
    if not entry.found:
        return b""
    dump = EntryDump(num=entry.weights, last_update_ts_sec=entry.last_seen)
    state = list(entry.state)
    if not config.serving:
        for segment in config.segments:
            parts = {}
            for slot in RULES[segment.optimizer.kind].state:
                count = slot.floats(segment.dim)
                parts[slot.name] = _step_number(state[:count]) if slot.is_step else state[:count]
                del state[:count]
            if segment.optimizer.kind != _NO_DUMP:
                _fill(dump.opt.dump.add(), segment.optimizer.kind, parts)
    return dump.SerializeToString()


def _fill(dump: SingleOptimizerDump, kind: str, parts: dict[str, int | list[float]]) -> None:
    if kind not in SingleOptimizerDump.DESCRIPTOR.fields_by_name:
        dump.named.rule = kind
        for name, part in parts.items():
            is_step = isinstance(part, int)
            dump.named.slot.add(name=name, **{"step" if is_step else "value": part})
        return
    message = getattr(dump, kind)
    message.SetInParent()
    for name, part in parts.items():
        if isinstance(part, int):
            setattr(message, name, part)
        elif message.DESCRIPTOR.fields_by_name[name].is_repeated:
            getattr(message, name).extend(part)
        else:
            setattr(message, name, part[0])


def _step_number(floats: Sequence[float]) -> int:
    number: int = struct.unpack("<q", struct.pack("<2f", *floats))[0]
    return number
