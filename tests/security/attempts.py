"""What the attempts of the security page share: a receiver with rows, and ways to be a stranger."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from monolith._core import native
from monolith.delta import DeltaReceiver
from monolith.delta.messages import DeltaType
from monolith.wire import Address, Message, Server, SharedSecret
from monolith.wire.frame import HEADER_BYTES
from tests.delta.table_target import TableTarget, content
from tests.patience import PATIENCE_SECONDS

SECRET = SharedSecret.new("the export folder")
PLAN = 7
POSITION = (3, 10)


class Served:
    """A receiver at an address, with one row and some weights."""

    def __init__(self, server: Server, target: TableTarget, receiver: DeltaReceiver) -> None:
        self.server, self.target, self.receiver = server, target, receiver
        self.address = server.address
        self._before = self._state()

    def _state(self) -> Any:
        weights = {name: weight.tolist() for name, weight in self.target.dense_weights.items()}
        return content(self.target.tables), weights, self.receiver.freshness.position

    @property
    def unchanged(self) -> bool:
        return self._state() == self._before

    def raw(self) -> socket.socket:
        if self.address.path is not None:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(self.address.path)
            return sock
        return socket.create_connection((self.address.host, self.address.port), timeout=PATIENCE_SECONDS)


@contextlib.contextmanager
def served(address: str = "127.0.0.1:0", **options: Any) -> Iterator[Served]:
    """Take deltas at an address."""
    target = TableTarget()
    target.tables["mov"].assign(torch.tensor([7]), torch.ones(1, 3))
    receiver = DeltaReceiver(target, plan_hash=PLAN, generation=POSITION[0], sequence=POSITION[1])
    with receiver.listen(address, **options) as server:
        yield Served(server, target, receiver)


def delta(**changes: Any) -> Message:
    """A delta that fits, but for the changes."""
    fields: dict[str, Any] = {"type": DeltaType.DELTA, "generation": 3, "sequence": 11, "plan_hash": PLAN}
    arrays = {"ids/mov": np.array([7, 8]), "rows/mov": np.full((2, 3), 5, np.float32)} | changes.pop("arrays", {})
    return Message(**{**fields, "meta": {"bases": [list(POSITION)]}, "arrays": arrays, **changes})


def full_sync(generation: int) -> list[Message]:
    """A full sync without any rows: it empties the tables."""
    return [
        Message(type=type_, generation=generation, sequence=2**60, plan_hash=PLAN)
        for type_ in (DeltaType.FULL_BEGIN, DeltaType.FULL_END)
    ]


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[Address]:
    """A stranger that listens where the server should, and does as it likes with one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            sock, _ = listener.accept()
            with sock, contextlib.suppress(OSError):
                sock.settimeout(PATIENCE_SECONDS)
                answer(sock)

        thread = threading.Thread(target=run)
        thread.start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        thread.join(PATIENCE_SECONDS)


def hangs_up(sock: socket.socket) -> bool:
    """Whether the other side ends the connection before the socket's time-out."""
    try:
        while sock.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def tcp(address: Any) -> socket.socket:
    return socket.create_connection((address.host, address.port), timeout=PATIENCE_SECONDS)


def with_total_bytes(frame: bytes, total_bytes: int) -> bytes:
    """The frame's header and index, with another length and the checksum to go with it."""
    header = frame[:72] + struct.pack("<Q", total_bytes) + frame[80:84]
    return header + struct.pack("<I", native.crc32c(header)) + frame[HEADER_BYTES:]
