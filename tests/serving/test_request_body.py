"""Bodies in memory: no more than allowed, of one request or of all, packed or not."""

import asyncio
import gzip
import json
import tracemalloc
import zlib

import pytest
from starlette.requests import ClientDisconnect

from monolith.serving.request_body import BodyError, WholeBodies, unpacked


class Client:
    """One request, part by part; remembers the answer."""

    def __init__(self, bodies):
        self._parts = asyncio.Queue()
        self.sent = []
        scope = {"type": "http", "method": "POST", "path": "/"}
        self.task = asyncio.create_task(bodies(scope, self._parts.get, self._send))

    async def _send(self, message):
        self.sent.append(message)

    async def upload(self, body, more_body=True):
        await self._parts.put({"type": "http.request", "body": body, "more_body": more_body})
        for _ in range(5):
            await asyncio.sleep(0)

    async def leave(self):
        await self._parts.put({"type": "http.disconnect"})

    @property
    def status(self):
        return self.sent[0]["status"] if self.sent else None


async def echo(scope, receive, send):
    message = await receive()
    assert message["more_body"] is False
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def test_the_application_gets_a_request_when_it_is_whole():
    async def run():
        client = Client(WholeBodies(echo, 10))
        await client.upload(b"abc")
        assert client.sent == []
        await client.upload(b"def", more_body=False)
        await client.task
        assert (client.status, client.sent[1]["body"]) == (200, b"abcdef")

    asyncio.run(run())


def test_half_bodies_of_all_clients_together_have_a_limit_that_they_give_back():
    async def run():
        bodies = WholeBodies(echo, 10, min_total_bytes=100)
        slow = [Client(bodies) for _ in range(10)]
        for client in slow:
            await client.upload(b"x" * 10)
        refused = Client(bodies)
        await refused.upload(b"x")
        await refused.task
        assert refused.status == 503
        assert "try again" in json.loads(refused.sent[1]["body"])["error"]
        for client in slow[:5]:
            await client.leave()
            with pytest.raises(ClientDisconnect):
                await client.task
        for client in slow[5:]:
            await client.upload(b"", more_body=False)
            await client.task
            assert client.status == 200
        again = [Client(bodies) for _ in range(10)]
        for client in again:
            await client.upload(b"x" * 10, more_body=False)
            await client.task
            assert client.status == 200

    asyncio.run(run())


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_bomb_is_not_unpacked(encoding, pack):
    bomb = pack(bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(BodyError, match="more than 1000000 bytes"):
            unpacked(bomb, encoding, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_a_body_of_exactly_the_limit_is_taken():
    assert unpacked(gzip.compress(bytes(1000)), "gzip", 1000) == bytes(1000)
    with pytest.raises(BodyError):
        unpacked(gzip.compress(bytes(1001)), "gzip", 1000)
