"""Clients that begin and do not go on, on both ports, while a trainer pushes and a client asks."""

import http.client
import random
import socket
from contextlib import ExitStack

from monolith.wire import connect
from tests.hostile.ports.attacked_server import AttackedServer, attacked
from tests.hostile.ports.frames import GREETINGS
from tests.hostile.ports.made_frames import frame_of, good_delta
from tests.hostile.report import Report
from tests.patience import PATIENCE_SECONDS
from tests.serving.requests import INFER

COUNT = 1500
WAVE = 50
"""Connections that are opened before the next push and the next question."""

HTTP_PART = 0.65
_POST = f"POST {INFER} HTTP/1.1\r\nHost: x\r\n".encode()
HALVES = {
    "HTTP, nothing": b"",
    "HTTP, half a line": b"GET /v2/heal",
    "HTTP, half a header": b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    "HTTP, half a body": _POST + b"Content-Length: 1000\r\n\r\n{",
    "HTTP, half a chunk": _POST + b"Transfer-Encoding: chunked\r\n\r\n100\r\n{",
    "HTTP, waits for 100": _POST + b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
}


def attack(seed: int, count: int) -> Report:
    """Open `count` connections to a server, and close none of them."""
    with attacked() as server:
        return attack_at(server, seed, count)


def attack_at(server: AttackedServer, seed: int, count: int) -> Report:
    """Attack a server that is there."""
    report, dice = Report("slow_clients", seed), random.Random(seed)
    answered = {"pushes": 0, "questions": 0}
    with ExitStack() as cleanup, server.watched(report):
        trainer = cleanup.enter_context(connect(server.delta_address, PATIENCE_SECONDS, secret=server.secret))
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
        cleanup.callback(client.close)
        opened: list[socket.socket] = []
        for begin in range(0, count, WAVE):
            parts = [_open_one(server, dice, opened, cleanup) for _ in range(begin, min(begin + WAVE, count))]
            _drip(dice, opened)
            words = ""
            for is_new in (False, True):
                delta = good_delta(server, dice)
                reply = server.send(delta) if is_new else trainer.request(delta, PATIENCE_SECONDS)
                if reply.meta["status"] != "ok":
                    words = f"a delta was answered with {reply.meta}"
                server.generation, server.sequence = delta.generation, delta.sequence
                server.apply(delta.arrays)
            client.request("GET", "/v2")
            answer = client.getresponse()
            if (answer.status, len(answer.read()) > 0) != (200, True):
                words = f"a client that was there before got {answer.status}"
            words = words or server.what_is_wrong()
            answered = {"pushes": answered["pushes"] + 2, "questions": answered["questions"] + 2}
            for part in parts:
                report.count(part, "wrong_values" if words else "refused")
            if words:
                report.findings.append(f"slow_clients, seed {seed}, after {begin + len(parts)} connections: {words}")
    report.figures |= answered
    return report


def _open_one(server: AttackedServer, dice: random.Random, opened: list[socket.socket], cleanup: ExitStack) -> str:
    """Open one connection, send half of something, and return what."""
    if dice.random() < HTTP_PART:
        part, port = dice.choice(sorted(HALVES)), server.port
        data = HALVES[part]
    else:
        port = server.delta_address.port
        part, data = dice.choice(
            [
                ("deltas, nothing", b""),
                ("deltas, half a handshake", GREETINGS["half a handshake"]),
                ("deltas, half a frame", frame_of(good_delta(server, dice))[: dice.randrange(1, 88)]),
            ]
        )
    sock = cleanup.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS))
    sock.sendall(data)
    opened.append(sock)
    return part


def _drip(dice: random.Random, opened: list[socket.socket]) -> None:
    """Let some of them send one more byte."""
    for sock in dice.sample(opened, min(WAVE, len(opened))):
        try:
            sock.send(b"x")
        except OSError:
            pass  # the server has given it up
