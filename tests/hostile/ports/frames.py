"""Damaged and crafted delta frames, of peers that know the secret and of strangers."""

import contextlib
import random
import socket
from dataclasses import replace

import numpy as np

from monolith.delta.messages import DeltaType
from monolith.wire import Deadline, Message, SharedSecret
from monolith.wire.connection import Connection
from monolith.wire.frame import DEFAULT_LIMITS, encode_frame
from monolith.wire.handshake import NONCE_BYTES, PROOF_BYTES, Step, greet_server
from monolith.wire.message import Kind
from tests.hostile.ports.attacked_server import AttackedServer, attacked
from tests.hostile.ports.made_frames import MadeFrame, frame_of, good_delta, made_frame
from tests.hostile.report import Report
from tests.patience import PATIENCE_SECONDS

COUNT = 1200
STRANGERS = 0.2
"""Part of the frames whose sender does not know the secret."""

FULL_SYNCS = 0.02
ENOUGH_FINDINGS = 20


def attack(seed: int, count: int) -> Report:
    """Send `count` frames to a server, and look after each of them what it serves."""
    with attacked() as server:
        return attack_at(server, seed, count)


def attack_at(server: AttackedServer, seed: int, count: int) -> Report:
    """Attack a server that is there."""
    report = Report("frames", seed)
    secret = server.secret
    with server.watched(report):
        for number in range(count):
            part, verdict = _attack_once(server, secret, random.Random(f"{seed}/{number}"))
            if wrong := server.what_is_wrong():
                verdict = "wrong_values"
                report.findings.append(f"frames, seed {seed}, attack {number} ({part}): {wrong}")
            report.count(part, verdict)
            if len(report.findings) >= ENOUGH_FINDINGS:
                break
    return report


def _attack_once(server: AttackedServer, secret: SharedSecret, dice: random.Random) -> tuple[str, str]:
    if dice.random() < FULL_SYNCS:
        return _interrupted_full_sync(server, secret, dice)
    frame = made_frame(server, dice)
    if dice.random() < STRANGERS:
        greeting = dice.choice(sorted(GREETINGS))
        exchange(server, GREETINGS[greeting] + frame.data)
        return f"stranger, {greeting}", "refused"
    exchange(server, frame.data, secret)
    if frame.applied is None:
        return frame.part, "refused"
    return _applied(server, frame, dice)


def _applied(server: AttackedServer, frame: MadeFrame, dice: random.Random) -> tuple[str, str]:
    assert frame.applied is not None
    server.generation, server.sequence = frame.generation, frame.sequence
    server.apply(frame.applied)
    is_good = frame.part.startswith("good")
    if not np.isfinite(server.expected).all():
        # Finite values that are far too large for this model: a trainer would send better ones.
        arrays = {name: np.zeros_like(one) if one.dtype == np.float32 else one for name, one in frame.applied.items()}
        better = replace(good_delta(server, dice), arrays=arrays)
        server.send(better)
        server.sequence = better.sequence
        server.apply(arrays)
    return frame.part, "read_right" if is_good else "unseen"


def _interrupted_full_sync(server: AttackedServer, secret: SharedSecret, dice: random.Random) -> tuple[str, str]:
    """Begin a full sync, send rows that are refused and deltas that must wait, then end it as it should."""
    server.sequence += 1
    fields = {"generation": server.generation, "sequence": server.sequence, "plan_hash": server.plan.hash}
    server.send(Message(type=DeltaType.FULL_BEGIN, **fields))
    for _ in range(dice.randrange(1, 4)):
        frame = made_frame(server, dice)
        if frame.part != "full sync not begun":  # this one is
            exchange(server, frame.data, secret)
        wrong = {"ids/mov": np.arange(4), "rows/mov": np.full((4, 7), np.nan, np.float32)}
        rows = Message(type=DeltaType.FULL_ROWS, **fields, arrays={**good_delta(server, dice).arrays, **wrong})
        exchange(server, frame_of(rows), secret)
    arrays = {}
    for name, table in server.tables.tables.items():
        ids = [some for some, _ in table.items()]
        arrays[f"ids/{name}"] = np.concatenate([some.numpy() for some in ids])
        arrays[f"rows/{name}"] = np.concatenate([table.lookup(some).numpy() for some in ids])
    server.send(Message(type=DeltaType.FULL_ROWS, **fields, arrays=arrays))
    server.send(Message(type=DeltaType.FULL_END, **fields))
    return "full sync, interrupted", "read_right"


def exchange(server: AttackedServer, data: bytes, secret: SharedSecret | None = None) -> bytes:
    """Send bytes, after a handshake if there is a secret, and return what comes until the server hangs up."""
    answer = b""
    address = (server.delta_address.host, server.delta_address.port)
    with socket.create_connection(address, PATIENCE_SECONDS) as sock:
        if secret is not None:
            greet_server(Connection(sock, DEFAULT_LIMITS), secret, Deadline.after(PATIENCE_SECONDS))
        sock.settimeout(PATIENCE_SECONDS)
        with contextlib.suppress(ConnectionError):  # the server may hang up at the first bytes
            sock.sendall(data)
            _say_no_more(sock)
            while part := sock.recv(1 << 16):
                answer += part
    return answer


def _say_no_more(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # not connected any more
        sock.shutdown(socket.SHUT_WR)


def handshake_frame(step: Step, name: str, content: bytes) -> bytes:
    """Return one step of a handshake as bytes."""
    message = Message(type=step, arrays={name: np.frombuffer(content, np.uint8)})
    return b"".join(encode_frame(message, kind=Kind.HANDSHAKE))


_HELLO = handshake_frame(Step.HELLO, "nonce", bytes(NONCE_BYTES))
GREETINGS = {
    "no handshake": b"",
    "half a handshake": _HELLO,
    "wrong proof": _HELLO + handshake_frame(Step.PROOF, "proof", bytes(PROOF_BYTES)),
    "proof first": handshake_frame(Step.PROOF, "proof", bytes(PROOF_BYTES)),
    "proof of other length": _HELLO + handshake_frame(Step.PROOF, "proof", bytes(PROOF_BYTES - 1)),
}
"""What strangers say before their frame."""
