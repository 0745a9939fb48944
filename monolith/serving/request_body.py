"""The body of a request and of an answer: never more in memory than allowed, compressed or not."""

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_BODY_BYTES = 4 << 20
"""Larger requests are refused: about thirty thousand examples of ten inputs."""

MIN_TOTAL_BYTES = 256 << 20
"""Room for the bodies of all requests together; four of the largest have room in any case."""

# What zlib calls the two forms: a gzip header, and zlib's own, which HTTP calls deflate.
_WINDOW_BITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}

# Below it compressing takes longer than sending.
_MIN_COMPRESSED_BYTES = 4096
_LEVEL = 1


class Bodies:
    """Reads the bodies of all requests, within a limit for each and one for all together."""

    def __init__(self, max_bytes: int = MAX_BODY_BYTES) -> None:
        """Refuse bodies of more than `max_bytes`, before or after decompression."""
        if max_bytes < 1:
            raise ValueError(f"max_body_bytes must be positive, got {max_bytes}")
        self.max_bytes = max_bytes
        self._free = max(MIN_TOTAL_BYTES, 4 * max_bytes)

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body as it was sent; its memory counts until the block ends."""
        held = 0
        try:
            parts = []
            async for part in self._parts(request):
                if len(part) > self._free:
                    raise HTTPException(503, "the server has too many requests at a time; try again", _RETRY)
                self._free -= len(part)
                held += len(part)
                parts.append(part)
            yield b"".join(parts)
        finally:
            self._free += held

    async def _parts(self, request: Request) -> AsyncIterator[bytes]:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size <= self.max_bytes:
                yield part
            elif size > 4 * self.max_bytes:
                # It may never end.
                raise self._too_large(close=True)
        # Only now: a client that is still sending would not read the answer.
        if size > self.max_bytes:
            raise self._too_large(close=False)

    def decoded(self, body: bytes, encoding: str) -> bytes:
        """Return the body without its Content-Encoding; runs without the interpreter lock."""
        encoding = encoding.strip().lower()
        if encoding in ("", "identity"):
            return body
        if encoding not in _WINDOW_BITS:
            raise HTTPException(
                415, "Content-Encoding must be gzip, deflate or identity", {"Accept-Encoding": ACCEPTED}
            )
        unpacker = zlib.decompressobj(_WINDOW_BITS[encoding])
        try:
            content = unpacker.decompress(body, self.max_bytes + 1)
        except zlib.error as error:
            raise ValueError(f"the request is no {encoding}: {error}") from None
        if len(content) > self.max_bytes:
            raise self._too_large(close=False)
        if not unpacker.eof:
            raise ValueError(f"the request is no {encoding}: it ends too early")
        if unpacker.unused_data:
            raise ValueError(f"the request is no {encoding}: something follows its end")
        return content

    def _too_large(self, *, close: bool) -> HTTPException:
        return HTTPException(
            413,
            f"the request has more than {self.max_bytes} bytes; send fewer examples at a time, or start the server "
            "with a larger --max-body-bytes",
            {"Connection": "close"} if close else None,
        )


ACCEPTED = ", ".join(_WINDOW_BITS)
_RETRY = {"Retry-After": "1"}


def wanted_encoding(accepted: str) -> str | None:
    """Return how an answer may be compressed, by the client's Accept-Encoding; None if it may not.

    >>> wanted_encoding("br, gzip;q=0, deflate;q=0.5")
    'deflate'
    """
    for part in accepted.lower().split(","):
        name, _, parameters = part.partition(";")
        quality = parameters.replace(" ", "").removeprefix("q=")
        # "0", "0.0" and so on say that it must not be used.
        if name.strip() in _WINDOW_BITS and (not quality or quality.strip("0.")):
            return name.strip()
    return None


def encoded(content: bytes, encoding: str | None) -> tuple[bytes, str | None]:
    """Return an answer, compressed if the client can read that and it is worth it, and how; without the lock."""
    if encoding is None or len(content) < _MIN_COMPRESSED_BYTES:
        return content, None
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS[encoding])
    return packer.compress(content) + packer.flush(), encoding
