"""The body of a request and of an answer: never more in memory than allowed, compressed or not."""

import zlib
from collections.abc import Mapping

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monolith.serving.answer import error_response

MAX_BODY_BYTES = 4 << 20
"""Larger requests are refused: about thirty thousand examples of ten inputs."""

MIN_TOTAL_BYTES = 256 << 20
"""Room for the bodies of all requests together; four of the largest have room in any case."""

# What zlib calls the two forms: a gzip header, and zlib's own, which HTTP calls deflate.
_WINDOW_BITS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}

MIN_COMPRESSED_BYTES = 4096
"""Below it compressing an answer takes longer than sending it."""

_LEVEL = 1

ACCEPTED = ", ".join(_WINDOW_BITS)


class WholeBodies:
    """An ASGI application around another one: it passes requests on once their bodies have arrived, within limits.

    A client that has sent half a request costs next to nothing: its request is not read.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, min_total_bytes: int = MIN_TOTAL_BYTES) -> None:
        """Refuse bodies of more than `max_bytes`, and any while all together have no room."""
        self._app = app
        self._max_bytes = max_bytes
        self._free = max(min_total_bytes, 4 * max_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body of a POST, then hand it on; its memory counts until the answer is sent."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        parts: list[bytes] = []
        try:
            await self._read(receive, parts)
            whole: Message = {"type": "http.request", "body": b"".join(parts), "more_body": False}
            waiting = [whole]

            async def receive_whole() -> Message:
                return waiting.pop() if waiting else await receive()

            await self._app(scope, receive_whole, send)
        except BodyError as error:
            await error_response(error.status, str(error), error.headers)(scope, receive, send)
        finally:
            self._free += sum(map(len, parts))

    async def _read(self, receive: Receive, parts: list[bytes]) -> None:
        size, is_whole = 0, False
        while not is_whole:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part = message.get("body", b"")
            is_whole = not message.get("more_body", False)
            size += len(part)
            if size > 4 * self._max_bytes:
                # It may never end.
                raise _too_large(self._max_bytes, {"Connection": "close"})
            if size <= self._max_bytes:
                if len(part) > self._free:
                    raise BodyError(503, "the server has too many requests at a time; try again", {"Retry-After": "1"})
                self._free -= len(part)
                parts.append(part)
        # Only now: a client that is still sending would not read the answer.
        if size > self._max_bytes:
            raise _too_large(self._max_bytes)


class BodyError(Exception):
    """A body that is not taken: a status and headers to answer with."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        """Say what is wrong."""
        super().__init__(message)
        self.status = status
        self.headers = headers


def _too_large(max_bytes: int, headers: Mapping[str, str] | None = None) -> BodyError:
    return BodyError(
        413,
        f"the request has more than {max_bytes} bytes; send fewer examples at a time, or start the server with a "
        "larger --max-body-bytes",
        headers,
    )


def unpacked(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Return a body without its Content-Encoding; runs without the interpreter lock.

    Raises:
        BodyError: its encoding is unknown, or it has more than `max_bytes`.
        ValueError: it is damaged.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOW_BITS:
        raise BodyError(415, f"Content-Encoding must be {ACCEPTED} or identity", {"Accept-Encoding": ACCEPTED})
    unpacker = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        content = unpacker.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"the request is no {encoding}: {error}") from None
    if len(content) > max_bytes:
        raise _too_large(max_bytes)
    if not unpacker.eof:
        raise ValueError(f"the request is no {encoding}: it ends too early")
    if unpacker.unused_data:
        raise ValueError(f"the request is no {encoding}: something follows its end")
    return content


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


def packed(content: bytes, encoding: str | None) -> tuple[bytes, str | None]:
    """Return an answer and its encoding: compressed if the client accepts it and it pays; needs no interpreter lock."""
    if encoding is None or len(content) < MIN_COMPRESSED_BYTES:
        return content, None
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW_BITS[encoding])
    return packer.compress(content) + packer.flush(), encoding
