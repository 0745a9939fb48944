"""Delta frames: good ones, damaged ones, and crafted ones whose checksums are right."""

import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monolith._core import native
from monolith.delta.messages import DeltaType
from monolith.wire import Message
from monolith.wire.frame import ALIGNMENT, HEADER_BYTES, decode_frame, decode_header, encode_frame
from tests.hostile.damage import damaged
from tests.hostile.ports.attacked_server import NEW_IDS, AttackedServer

Arrays = Mapping[str, np.ndarray]

# Where fields of a header are; docs/formats.md, "Wire frames".
VERSIONS, TYPE, KIND, GENERATION, SEQUENCE, PLAN_HASH, META_BYTES, NUM_ARRAYS, DESCRIPTION_BYTES, TOTAL_BYTES = (
    (8, "<HH"), (12, "<H"), (14, "<H"), (24, "<Q"), (40, "<Q"), (48, "<Q"), (60, "<I"), (64, "<I"), (68, "<I"), (72,
    "<Q"),
)  # fmt: skip

HUGE = (2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(frozen=True)
class MadeFrame:
    """Bytes to send, and what a server that knows the sender must do."""

    part: str
    data: bytes
    applied: Arrays | None = None
    """What it must apply; None if it must refuse it."""
    generation: int = 0
    sequence: int = 0
    """Where the server is afterwards."""


def good_delta(server: AttackedServer, dice: random.Random) -> Message:
    """Return a delta with rows, perhaps ids to erase, perhaps a dense weight."""
    draw = np.random.default_rng(dice.getrandbits(32))
    arrays: dict[str, np.ndarray] = {}
    for name, table in server.tables.tables.items():
        ids = np.array(dice.sample([*range(200), *NEW_IDS], dice.randrange(1, 6)))
        if dice.random() < 0.3:
            arrays[f"erased/{name}"] = np.array(dice.sample(range(200), 3))
        arrays[f"ids/{name}"] = ids
        arrays[f"rows/{name}"] = draw.standard_normal((len(ids), table.dim), np.float32)
    if dice.random() < 0.3:
        arrays["dense/tower.0.bias"] = draw.standard_normal(16, np.float32)
    return Message(
        type=DeltaType.DELTA,
        generation=server.generation,
        sequence=server.sequence + dice.randrange(1, 4),
        plan_hash=server.plan.hash,
        meta={"bases": [[server.generation, server.sequence]]},
        arrays=arrays,
    )


def made_frame(server: AttackedServer, dice: random.Random) -> MadeFrame:
    """Return a frame of one of the ways, each as often as the others, but damage more often."""
    good = good_delta(server, dice)
    way = dice.choice(sorted(_WAYS) + ["damaged"] * 6)
    return _WAYS[way](good, dice)


def frame_of(message: Message) -> bytes:
    """Return a message as bytes."""
    return b"".join(encode_frame(message, request_id=1))


def with_field(frame: bytes, field: tuple[int, str], *values: int) -> bytes:
    """Return the frame with another value in its header, and the checksum to go with it."""
    at, form = field
    header = bytearray(frame[: HEADER_BYTES - 4])
    struct.pack_into(form, header, at, *values)
    return bytes(header) + struct.pack("<I", native.crc32c(bytes(header))) + frame[HEADER_BYTES:]


def with_meta(message: Message, meta: bytes) -> bytes:
    """Return the message as bytes, with anything in place of its meta data, and checksums to go with it."""
    frame = frame_of(message)
    header = decode_header(frame[:HEADER_BYTES])
    begin = HEADER_BYTES + header.meta_bytes
    index = meta + frame[begin : begin + header.description_bytes]
    arrays = frame[_aligned(begin + header.description_bytes) :]
    head = frame[:HEADER_BYTES] + index
    data = head.ljust(_aligned(len(head)), b"\0") + arrays
    data = data[:80] + struct.pack("<I", native.crc32c(index)) + data[84:]
    return with_field(with_field(data, META_BYTES, len(meta)), TOTAL_BYTES, len(data))


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _good(good: Message, _: random.Random) -> MadeFrame:
    return MadeFrame("good", frame_of(good), good.arrays, good.generation, good.sequence)


def _next_generation(good: Message, _: random.Random) -> MadeFrame:
    newer = replace(good, generation=good.generation + 1)
    return MadeFrame("good, next generation", frame_of(newer), good.arrays, newer.generation, newer.sequence)


def _damaged(good: Message, dice: random.Random) -> MadeFrame:
    """Damage any byte; where arrays were changed and nothing else, no checksum tells."""
    frame = frame_of(good)
    way, data = damaged(frame, dice)
    header = decode_header(frame[:HEADER_BYTES])
    head_bytes = HEADER_BYTES + header.meta_bytes + header.description_bytes
    if len(data) < len(frame) or data[:head_bytes] != frame[:head_bytes]:
        return MadeFrame(way, data)
    arrays = decode_frame(header, np.frombuffer(data[HEADER_BYTES : len(frame)], np.uint8)).arrays
    if not all(np.isfinite(array).all() for array in arrays.values()):
        return MadeFrame(f"{way}, NaN", data)
    return MadeFrame(f"{way} in values", data, arrays, good.generation, good.sequence)


def _length(good: Message, dice: random.Random) -> MadeFrame:
    """Promise more or less than there is, or than anybody takes."""
    frame = frame_of(good)
    field = dice.choice([META_BYTES, NUM_ARRAYS, DESCRIPTION_BYTES, TOTAL_BYTES])
    most = 2**64 - 1 if field == TOTAL_BYTES else 2**32 - 1
    (now,) = struct.unpack_from(field[1], frame, field[0])
    wrong = dice.choice([0, 1, now - 1, now + 1, 2 * now, 1 << 30, most, dice.randrange(most)])
    return MadeFrame("wrong length", with_field(frame, field, wrong if wrong != now else now + 1))


def _version(good: Message, dice: random.Random) -> MadeFrame:
    versions = dice.choice([(1, 1), (3, 3), (0, 0), (3, 65535), (2, 1), (65535, 65535)])
    return MadeFrame("wrong version", with_field(frame_of(good), VERSIONS, *versions))


def _kind(good: Message, dice: random.Random) -> MadeFrame:
    return MadeFrame("wrong kind", with_field(frame_of(good), KIND, dice.choice([1, 2, 3, 4, 7, 65535])))


def _type(good: Message, dice: random.Random) -> MadeFrame:
    return MadeFrame("wrong type", with_field(frame_of(good), TYPE, dice.choice([0, 1, 31, 34, 35, 36, 255, 65535])))


def _plan(good: Message, dice: random.Random) -> MadeFrame:
    wrong = dice.choice([0, good.plan_hash ^ 1, dice.getrandbits(64)])
    return MadeFrame("wrong plan", with_field(frame_of(good), PLAN_HASH, wrong))


def _gap(good: Message, dice: random.Random) -> MadeFrame:
    """Build on what the server never had."""
    ((generation, sequence),) = good.meta["bases"]
    missing = dice.choice([[generation, sequence + 1], [generation + 1, sequence], [generation, 2**64 - 1]])
    later = replace(good, sequence=good.sequence + 3, meta={"bases": [missing]})
    return MadeFrame("gap", frame_of(later))


def _generation(good: Message, dice: random.Random) -> MadeFrame:
    """Be of the past, or of a huge generation that builds on itself."""
    wrong = dice.choice([0, *HUGE])
    base = [wrong, dice.choice([0, good.sequence, *HUGE])]
    return MadeFrame("wrong generation", frame_of(replace(good, generation=wrong, meta={"bases": [base]})))


def _old(good: Message, dice: random.Random) -> MadeFrame:
    ((_, sequence),) = good.meta["bases"]
    return MadeFrame("known already", frame_of(replace(good, sequence=dice.randrange(sequence + 1))))


def _full(good: Message, dice: random.Random) -> MadeFrame:
    """Go on with a full sync that nobody began, or begin one that is behind."""
    ((generation, sequence),) = good.meta["bases"]
    type_ = dice.choice([DeltaType.FULL_ROWS, DeltaType.FULL_END, DeltaType.FULL_BEGIN])
    behind = replace(good, type=type_, generation=generation, sequence=sequence)
    return MadeFrame("full sync not begun", frame_of(behind))


def _content(good: Message, dice: random.Random) -> MadeFrame:
    """Add one part that does not fit to a delta that fits."""
    part = dice.choice(sorted(_MISFITS))
    return MadeFrame(part, frame_of(replace(good, arrays={**good.arrays, **_MISFITS[part](good, dice)})))


def _meta(good: Message, dice: random.Random) -> MadeFrame:
    base = good.meta["bases"][0]
    text = dice.choice(_METAS).replace("GENERATION", str(base[0])).replace("SEQUENCE", str(base[1]))
    return MadeFrame("wrong meta data", with_meta(good, text.encode("utf-8", "surrogatepass")))


def _rows(num: int, dim: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones((num, dim), dtype)


def _not_finite(good: Message, dice: random.Random) -> dict[str, np.ndarray]:
    name = dice.choice([name for name in good.arrays if name.startswith("rows/")])
    rows = good.arrays[name].copy()
    rows.reshape(-1)[dice.randrange(rows.size)] = dice.choice([np.nan, np.inf, -np.inf])
    return {name: rows}


_MISFITS: dict[str, Callable[[Message, random.Random], dict[str, np.ndarray]]] = {
    "NaN or infinity": _not_finite,
    "dense NaN": lambda good, dice: {"dense/tower.0.bias": np.full(16, np.nan, np.float32)},
    "dense of another shape": lambda good, dice: {"dense/tower.0.bias": _rows(dice.randrange(4), 4)},
    "dense of another type": lambda good, dice: {"dense/tower.0.bias": np.ones(16, np.int64)},
    "dense unknown": lambda good, dice: {dice.choice(["dense/", "dense/x", "dense/" + "x" * 9999]): _rows(2, 2)},
    "table unknown": lambda good, dice: {"ids/none": np.arange(3), "rows/none": _rows(3, 7)},
    "table unknown, erased": lambda good, dice: {dice.choice(["erased/none", "erased/"]): np.arange(3)},
    "dims": lambda good, dice: {"ids/mov": np.arange(3), "rows/mov": _rows(3, dice.choice([0, 1, 6, 8, 700]))},
    "rows without ids": lambda good, dice: {"rows/none": _rows(3, 7)},
    "fewer rows than ids": lambda good, dice: {"ids/mov": np.arange(3), "rows/mov": _rows(2, 7)},
    "ids of another type": lambda good, dice: {"ids/mov": np.arange(3, dtype="i4"), "rows/mov": _rows(3, 7)},
    "ids nested": lambda good, dice: {"ids/mov": np.arange(4).reshape(2, 2), "rows/mov": _rows(2, 7)},
    "rows of another type": lambda good, dice: {"ids/mov": np.arange(3), "rows/mov": _rows(3, 7, np.float16)},
    "no such part": lambda good, dice: {dice.choice(["", "/", "ids", "x/mov", "\0/mov"]): np.arange(3)},
}

_METAS = [
    "", "{", "[]", "null", "7", "{}", '{"bases":null}', '{"bases":7}', '{"bases":[7]}', '{"bases":[[]]}',
    '{"bases":[[GENERATION]]}', '{"bases":[[GENERATION,SEQUENCE,0]]}', '{"bases":[[null,null]]}',
    '{"bases":[["GENERATION","SEQUENCE"]]}', '{"bases":[[GENERATION.0,SEQUENCE.0]]}',
    '{"bases":[[GENERATION.5,SEQUENCE.5]]}',
    '{"bases":[[Infinity,SEQUENCE]]}', '{"bases":[[NaN,NaN]]}', '{"bases":[[1e999,1]]}', '{"bases":[[true,SEQUENCE]]}',
    '{"bases":{"GENERATION":"SEQUENCE"}}', '{"bases":["11"]}', '{"bases":[[' + "9" * 5000 + ',1]]}',
    '{"bases":[[GENERATION,SEQUENCE]],"watermark":7}', '{"bases":[[GENERATION,SEQUENCE]],"watermark":{"a":NaN}}',
    '{"bases":[[GENERATION,SEQUENCE]],"watermark":{"a":"b"}}',
    '{"bases":[[GENERATION,SEQUENCE]],"watermark":{"a":true}}',
    '{"bases":' + "[" * 100_000 + "]" * 100_000 + "}", '{"a":' * 50_000, '{"\udcff":1}', "\ufeff{}", "\0",
]  # fmt: skip

_WAYS: dict[str, Callable[[Message, random.Random], MadeFrame]] = {
    "good": _good, "next_generation": _next_generation, "damaged": _damaged, "length": _length, "version": _version,
    "kind": _kind, "type": _type, "plan": _plan, "gap": _gap, "generation": _generation, "old": _old, "full": _full,
    "content": _content, "content again": _content, "meta": _meta,
}  # fmt: skip
