"""What table servers and their clients say; docs/formats.md, "Table messages", has every message.

Native code reads and writes the requests of a training step (csrc/net/). The rest is small and said here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Final

import numpy as np

from monolith._core import native
from monolith.embedding import TableConfig
from monolith.errors import FencedError, PlanMismatchError, RemoteError
from monolith.wire import Message
from monolith.wire.frame import HEADER_BYTES, decode_frame, decode_header
from monolith.wire.message import DEADLINE_CODE, Array

PROTOCOL: Final = 1
"""Version of the table messages; both sides must have the same."""

PLAN_CODE: Final = "plan"
NOT_FINITE_ROW_CODE: Final = "not_finite_row"


class TableRequest(IntEnum):
    """Type of a request."""

    HELLO = 64
    PULL = 65
    STEP = 66
    ASSIGN = 67
    ADD = 68
    CONTAINS = 69
    ERASE = 70
    EVICT = 71
    STATUS = 72


class Welcome(StrEnum):
    """How a server answers a hello."""

    OK = "ok"
    PROTOCOL = "protocol"
    PLAN = "plan"
    SHARD = "shard"
    TABLES = "tables"
    NOT_READY = "not_ready"
    GENERATION = "generation"


@dataclass(frozen=True, kw_only=True, slots=True)
class Hello:
    """What both sides of a connection must agree on."""

    plan_hash: int

    shard: int

    num_shards: int

    tables: list[tuple[str, int, int]]
    """Name, dim and number of segments of every table, in order of name."""

    generation: int = 0
    """Which life of the job it is; 0 where nobody counts."""

    version: int = 0
    """Of a model that serves: the version whose rows are wanted; 0 where nobody counts."""

    protocol: int = PROTOCOL

    def message(self) -> Message:
        """Return the request."""
        meta = {
            "protocol": self.protocol,
            "shard": self.shard,
            "num_shards": self.num_shards,
            "tables": [list(table) for table in self.tables],
            **({"version": self.version} if self.version else {}),
        }
        return Message(type=TableRequest.HELLO, plan_hash=self.plan_hash, generation=self.generation, meta=meta)

    def answer(self, message: Message) -> tuple[Welcome, str]:
        """Return how a server that says the same of itself answers a client's hello, and why."""
        asked = message.meta
        if asked.get("protocol") != self.protocol:
            words = f"this table server speaks version {self.protocol} of the table messages, the client "
            return Welcome.PROTOCOL, f"{words}{asked.get('protocol')!r}; update the older side"
        if message.plan_hash != self.plan_hash:
            words = "the table server was started for another lookup plan than the client's (hash "
            return (
                Welcome.PLAN,
                f"{words}{self.plan_hash:#018x}, not {message.plan_hash:#018x}); start both with the same model",
            )
        if (asked.get("shard"), asked.get("num_shards")) != (self.shard, self.num_shards):
            return (
                Welcome.SHARD,
                f"this is table server {self.shard} of {self.num_shards}, the client wants "
                f"{asked.get('shard')!r} of {asked.get('num_shards')!r}; give addresses in the order of the shards",
            )
        if asked.get("tables") != [list(table) for table in self.tables]:
            return (
                Welcome.TABLES,
                f"the table server has the tables (name, dim, segments) {self.tables}, the client others",
            )
        if message.generation and self.generation and message.generation != self.generation:
            return (
                Welcome.GENERATION,
                f"the table server is of generation {self.generation}, the client of {message.generation}: the job was "
                "restored since; go on from there",
            )
        return Welcome.OK, ""


def tables_of(configs: Mapping[str, TableConfig]) -> list[tuple[str, int, int]]:
    """Return what a hello says of tables."""
    return [(name, configs[name].dim, len(configs[name].segments)) for name in sorted(configs)]


def raise_refusal(address: object, frame: bytes) -> None:
    """Raise what an error reply says, given as a whole frame."""
    header = decode_header(frame[:HEADER_BYTES])
    message = decode_frame(header, _bytes(frame)[HEADER_BYTES:])
    code, words = message.meta.get("code"), f"{address}: {message.meta.get('error', 'an error without words')}"
    if code == DEADLINE_CODE:
        raise TimeoutError(words)
    if code == PLAN_CODE:
        raise PlanMismatchError(words)
    if code == NOT_FINITE_ROW_CODE:
        raise native.NotFiniteRow(words)
    raise RemoteError(words)


def _bytes(frame: bytes) -> Array:
    return np.frombuffer(frame, np.uint8)


def welcomed(address: object, reply: Message) -> Mapping[str, Any]:
    """Return what a server says in its answer to a hello; raise its reason if it does not go on.

    Raises:
        ConnectionError: It has no tables yet; ask again.
        PlanMismatchError: It has those of another plan.
        FencedError: It is of another generation.
        RemoteError: Anything else.
    """
    status, detail = reply.meta.get("status"), f"{address}: {reply.meta.get('detail', 'no reason given')}"
    if status == Welcome.OK:
        return reply.meta
    raise _REFUSALS.get(str(status), RemoteError)(detail)


_REFUSALS: Final[Mapping[str, type[Exception]]] = {
    Welcome.PLAN: PlanMismatchError,
    Welcome.TABLES: PlanMismatchError,
    Welcome.NOT_READY: ConnectionError,
    Welcome.GENERATION: FencedError,
}
