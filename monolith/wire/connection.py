"""Whole frames over one socket, each within its deadline."""

import contextlib
import ipaddress
import math
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from monolith.errors import CorruptFrameError
from monolith.wire.deadline import NO_DEADLINE, Deadline
from monolith.wire.frame import HEADER_BYTES, FrameLimits, Header, decode_frame, decode_header, encode_frame
from monolith.wire.message import Array, Kind, Message

# Linux takes at most 1024 buffers in one call (IOV_MAX); the order of a frame's buffers is kept across calls.
_MAX_BUFFERS: Final = 1024

_LAST_WORDS_SECONDS: Final = 1.0

# Setting a socket's timeout is a call of the system; an old one may stand for this long.
_LATE_SECONDS: Final = 0.005

# A connection keeps at most this much memory between frames.
_MAX_KEPT_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ReceivedFrame:
    """A frame as it came, for a reader of its own."""

    header: Header

    deadline: Deadline
    """When the sender stops waiting."""

    data: Array
    """All of its bytes, the header's too."""


class Connection:
    """A connected socket that carries frames; one thread may send while another receives."""

    def __init__(self, sock: socket.socket, limits: FrameLimits) -> None:
        """Take over a connected socket."""
        self._socket = sock
        self._limits = limits
        if sock.family != socket.AF_UNIX:
            # A frame is written at once; waiting for more to send only costs time.
            with contextlib.suppress(OSError):  # lost already: the first read will say so
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # A machine that vanished says nothing, as a silent peer does; the system asks after two hours.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def send(
        self, message: Message, *, kind: Kind, request_id: int, deadline: Deadline = NO_DEADLINE, deadline_ms: int = 0
    ) -> None:
        """Write one frame; TimeoutError or OSError leave the connection unusable, TypeError or ValueError untouched."""
        parts = encode_frame(message, kind=kind, request_id=request_id, deadline_ms=deadline_ms)
        num_bytes = sum(map(len, parts))
        if num_bytes > self._limits.max_frame_bytes:
            raise ValueError(
                f"a message of {num_bytes} bytes is beyond max_frame_bytes ({self._limits.max_frame_bytes}); send less "
                "at a time, or raise the limit on both sides"
            )
        if isinstance(self._socket, ssl.SSLSocket):
            for part in parts:
                self._wait_until(deadline)
                self._socket.sendall(part)
            return
        while parts:
            self._wait_until(deadline)
            sent = self._socket.sendmsg(parts[:_MAX_BUFFERS])
            parts = _after(parts, sent)

    def receive_header(self, deadline: Deadline = NO_DEADLINE, begun_seconds: float | None = None) -> Header | None:
        """Return the next frame's header; None if the other side closed the connection between frames.

        Its first byte must come by the deadline, and the others too, or within `begun_seconds` of the first.
        """
        head = self._receive_head(deadline, begun_seconds)
        return None if head is None else decode_header(head, self._limits)

    def receive_rest(self, header: Header, deadline: Deadline = NO_DEADLINE) -> Message:
        """Return the message that the header announced."""
        # The header's place stays free, so that arrays are aligned in memory as they are in the frame.
        body = _claim(header)[HEADER_BYTES:]
        self.read_into(body.data, deadline)
        return decode_frame(header, body)

    def receive_frame(
        self,
        deadline: Deadline = NO_DEADLINE,
        begun_seconds: float | None = None,
        memory: "FrameMemory | None" = None,
    ) -> ReceivedFrame | None:
        """Return the next frame unread; None if the other side closed the connection between frames.

        With `begun_seconds`, the rest of the header and the rest of the frame each have that long instead. With
        `memory`, the frame is valid until the next one is received to the same memory.
        """
        head = self._receive_head(deadline, begun_seconds)
        if head is None:
            return None
        header = decode_header(head, self._limits)
        frame = ReceivedFrame(header, header.deadline, _claim(header) if memory is None else memory.claim(header))
        frame.data[:HEADER_BYTES] = np.frombuffer(head, np.uint8)
        self.read_into(frame.data.data[HEADER_BYTES:], _once_begun(deadline, begun_seconds))
        return frame

    def by(self, deadline: Deadline) -> "TimedConnection":
        """Return the same connection for bytes that must all get through by a deadline."""
        return TimedConnection(self, deadline)

    def refuse(self, reply: Message, request_id: int, deadline: Deadline) -> None:
        """Send a last reply, and read on for a moment: bytes that lie unread would make the other side lose it."""
        self.send(reply, kind=Kind.ERROR, request_id=request_id, deadline=deadline)
        patience = Deadline.after(_LAST_WORDS_SECONDS).earlier(deadline)
        scrap = bytearray(1 << 16)
        with contextlib.suppress(OSError):  # gone, or out of time: the reply was sent, and that was all
            if not isinstance(self._socket, ssl.SSLSocket):
                self._socket.shutdown(socket.SHUT_WR)
            while True:
                self._wait_until(patience)
                if self._socket.recv_into(scrap) == 0:
                    return

    @property
    def is_encrypted(self) -> bool:
        """Whether only Python's TLS can read and write it."""
        return isinstance(self._socket, ssl.SSLSocket)

    def fileno(self) -> int:
        """Return the socket's descriptor, for native code to read and write a connection that is not encrypted."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket; harmless when closed already."""
        self._socket.close()

    @property
    def local_name(self) -> str:
        """Address of this end as both ends see it: "host:port"; empty for Unix sockets."""
        return _name(self._socket.getsockname())

    @property
    def remote_name(self) -> str:
        """Address of the other end as both ends see it: "host:port"; empty for Unix sockets."""
        return _name(self._socket.getpeername())

    def interrupt(self) -> None:
        """Make a thread that waits on this connection return; it is of no use afterwards."""
        with contextlib.suppress(OSError):  # the other side was faster
            # Of the plain socket: an SSLSocket's own shutdown takes the TLS state from under the reading thread.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _receive_head(self, deadline: Deadline, begun_seconds: float | None) -> bytes | None:
        data = np.empty(HEADER_BYTES, dtype=np.uint8)
        self._wait_until(deadline)
        begun = self._socket.recv_into(data.data)
        if begun == 0:
            return None
        self.read_into(data.data[begun:], _once_begun(deadline, begun_seconds))
        return data.tobytes()

    def _wait_until(self, deadline: Deadline) -> None:
        """Let the next call of the socket end at the deadline, or `_LATE_SECONDS` after it."""
        left, known = deadline.remaining_seconds(), self._socket.gettimeout()
        if left is None or known is None or not left <= known <= left + _LATE_SECONDS:
            self._socket.settimeout(left)

    def write(self, part: memoryview, deadline: Deadline) -> None:
        """Write bytes of a frame that was encoded elsewhere."""
        self._wait_until(deadline)
        self._socket.sendall(part)

    def read_into(self, view: memoryview, deadline: Deadline) -> None:
        """Fill the view."""
        filled, size, checked_at = 0, len(view), -math.inf
        while filled < size:
            # An encrypted socket gives 16 KB at a time.
            if (now := time.monotonic()) - checked_at > _LATE_SECONDS / 2:
                self._wait_until(deadline)
                checked_at = now
            count = self._socket.recv_into(view[filled:])
            if count == 0:
                raise ConnectionError(f"the connection was lost after {filled} of {size} bytes")
            filled += count


class TimedConnection:
    """A connection as native code uses it: whole spans, by one deadline."""

    def __init__(self, connection: Connection, deadline: Deadline) -> None:
        """Say when everything must be through."""
        self._connection = connection
        self._deadline = deadline

    def write(self, part: memoryview) -> None:
        """Write all of it."""
        self._connection.write(part, self._deadline)

    def read_into(self, view: memoryview) -> None:
        """Fill the view."""
        self._connection.read_into(view, self._deadline)


class FrameMemory:
    """Memory for one frame after the other: the first touch of fresh memory takes longer than reading a frame to it."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._kept: Array = np.empty(0, dtype=np.uint8)

    def claim(self, header: Header) -> Array:
        """Return memory for the frame; what was in it is lost."""
        if header.total_bytes > _MAX_KEPT_BYTES:
            return _claim(header)
        if header.total_bytes > len(self._kept):
            self._kept = _claim(header)
        return self._kept[: header.total_bytes]


def _once_begun(deadline: Deadline, begun_seconds: float | None) -> Deadline:
    return deadline if begun_seconds is None else Deadline.after(begun_seconds)


def _claim(header: Header) -> Array:
    """Return memory for a frame: claimed, not touched. A frame that never comes costs address space and no more."""
    try:
        return np.empty(header.total_bytes, dtype=np.uint8)
    except MemoryError as error:
        raise CorruptFrameError(f"there is no memory for a frame of {header.total_bytes} bytes") from error


def _name(socket_address: str | bytes | tuple[str, int]) -> str:
    if not isinstance(socket_address, tuple):
        return ""  # a path, which may lead to the same socket under other names
    host, port = socket_address[:2]
    ip = ipaddress.ip_address(host.partition("%")[0])
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return f"{mapped or ip}:{port}"


def _after(parts: list[memoryview], sent: int) -> list[memoryview]:
    """Return what is left of the buffers once `sent` bytes are gone."""
    for number, part in enumerate(parts):
        if sent < len(part):
            return [part[sent:], *parts[number + 1 :]]
        sent -= len(part)
    return []
