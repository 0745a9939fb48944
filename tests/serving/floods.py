"""More than a server should take: of bytes in a request, and of connections."""

import contextlib
import resource
import socket
from collections.abc import Iterator
from typing import Any

from tests.patience import PATIENCE_SECONDS
from tests.serving.requests import PREDICT

GIGABYTE = 1 << 30


def bytes_taken_of_a_gigabyte(ready: dict[str, Any], *headers: str) -> int:
    """Send a request with a body of a gigabyte; return how much was sent before the server hung up."""
    piece, sent = b" " * (1 << 20), 0
    lines = [f"POST {PREDICT} HTTP/1.1", "Host: x", *headers, f"Content-Length: {GIGABYTE}", "", ""]
    with socket.create_connection((ready["host"], ready["port"]), PATIENCE_SECONDS) as sock:
        sock.sendall("\r\n".join(lines).encode())
        with contextlib.suppress(ConnectionError):
            while sent < GIGABYTE:
                sock.sendall(piece)
                sent += len(piece)
    return sent


@contextlib.contextmanager
def may_open(num_files: int) -> Iterator[bool]:
    """Let this process open this number of files while the block runs; yield whether the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < num_files:
        yield False
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, num_files), hard))
    try:
        yield True
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def half_open(ready: dict[str, Any], cleanup: contextlib.ExitStack) -> None:
    """Begin a request, and leave it at that until the cleanup."""
    sock = cleanup.enter_context(socket.create_connection((ready["host"], ready["port"]), PATIENCE_SECONDS))
    with contextlib.suppress(OSError):  # its place may be lost already
        sock.sendall(b"POST /v2/models/movie/infer HTTP/1.1\r\nContent-Le")
