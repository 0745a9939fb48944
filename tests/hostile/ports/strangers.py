"""Strangers: no secret, no certificate, no business here; nothing changes for them, and nothing leaks to them."""

import base64
import contextlib
import random
import shutil
import socket
import ssl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from monolith.delta.messages import DeltaType
from monolith.errors import CorruptFrameError
from monolith.wire import Message, SharedSecret, TlsConfig, connect
from monolith.wire.frame import HEADER_BYTES
from monolith.wire.handshake import NONCE_BYTES, Step
from tests.hostile.ports.attacked_server import AttackedServer, attacked
from tests.hostile.ports.frames import GREETINGS, exchange, handshake_frame
from tests.hostile.ports.made_frames import HUGE, TOTAL_BYTES, frame_of, good_delta, with_field
from tests.hostile.report import Report
from tests.patience import PATIENCE_SECONDS
from tests.wire.conftest import make_authority, make_certificate

COUNT = 600
Certificates = dict[str, TlsConfig]


def attack(seed: int, count: int) -> Report:
    """Try `count` ways in: half of them at a server with a secret, half at one with certificates."""
    with certified() as (certificates, tls_server), attacked() as server:
        return attack_at(server, tls_server, certificates, seed, count)


@contextlib.contextmanager
def certified() -> Iterator[tuple[Certificates, AttackedServer | None]]:
    """Certificates, and a server that asks for them; none where there is no openssl to make them."""
    if shutil.which("openssl") is None:
        yield {}, None
        return
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        for authority in ("ours", "theirs"):
            make_authority(Path(folder), authority)
        owners = {"server": "ours", "client": "ours", "stranger": "theirs"}
        certificates = {name: make_certificate(Path(folder), name, authority) for name, authority in owners.items()}
        with attacked(certificates["server"]) as server:
            yield certificates, server


def attack_at(
    server: AttackedServer, tls_server: AttackedServer | None, certificates: Certificates, seed: int, count: int
) -> Report:
    """Attack servers that are there."""
    report = Report("strangers", seed)
    report.figures["certificates"] = "used" if tls_server is not None else "no openssl: not tried"
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(server.watched(report))
        for number in range(count):
            dice = random.Random(f"{seed}/{number}")
            attempts = _ATTEMPTS
            target = server
            if tls_server is not None and number % 2:
                attempts, target = _TLS_ATTEMPTS, tls_server
            part = dice.choice(sorted(attempts))
            got = attempts[part](target, certificates, dice)
            words = target.what_is_wrong() or _leak(target, got)
            report.count(part, "wrong_values" if words else "refused")
            if words:
                report.findings.append(f"strangers, seed {seed}, attack {number} ({part}): {words}")
    for one in filter(None, (server, tls_server)):
        if words := _leak(one, one.log.read_bytes(), with_path=False):
            report.findings.append(f"strangers, seed {seed}: the log: {words}")
    return report


def _leak(server: AttackedServer, got: bytes, *, with_path: bool = True) -> str:
    """Return what of the server's own is in what a stranger got; nothing if there is none of it."""
    key = server.secret.key
    secrets = {key, key.hex().encode(), base64.b64encode(key), (server.base / "shared.secret").read_bytes().strip()}
    if any(secret in got for secret in secrets):
        return "the secret was sent"
    if with_path and (str(server.base).encode() in got or b"Traceback" in got or b"root:" in got):
        return f"something of the machine was sent: {got[:300]!r}"
    return ""


def _messages(server: AttackedServer, dice: random.Random) -> bytes:
    """Return what would change the tables if it were believed."""
    fields = {"generation": dice.choice(HUGE[2:]), "sequence": dice.choice(HUGE[:3]), "plan_hash": server.plan.hash}
    types = dice.choice([[DeltaType.DELTA], [DeltaType.FULL_BEGIN, DeltaType.FULL_END]])
    if types == [DeltaType.DELTA]:
        return frame_of(good_delta(server, dice))
    return b"".join(frame_of(Message(type=type_, **fields)) for type_ in types)


def _without_secret(server: AttackedServer, _: Certificates, dice: random.Random) -> bytes:
    return exchange(server, GREETINGS[dice.choice(sorted(GREETINGS))] + _messages(server, dice))


def _other_secret(server: AttackedServer, _: Certificates, dice: random.Random) -> bytes:
    guess = SharedSecret(dice.randbytes(32), "a guess")
    try:
        with connect(server.delta_address, PATIENCE_SECONDS, secret=guess) as client:
            client.request(good_delta(server, dice), PATIENCE_SECONDS)
    except (OSError, CorruptFrameError) as error:
        return str(error).encode()
    return b"Traceback: a guess was believed"


def _replayed_proof(server: AttackedServer, _: Certificates, dice: random.Random) -> bytes:
    """Show a proof that was good for other nonces, as somebody who recorded a handshake could."""
    nonce = dice.randbytes(NONCE_BYTES)
    claim = b"monolith wire 2: the client knows the secret\n" + nonce + bytes(NONCE_BYTES)
    proof = server.secret.proof(claim + str(server.delta_address).encode())
    greeting = handshake_frame(Step.HELLO, "nonce", nonce) + handshake_frame(Step.PROOF, "proof", proof)
    return exchange(server, greeting + _messages(server, dice))


def _garbage(server: AttackedServer, _: Certificates, dice: random.Random) -> bytes:
    begin = dice.choice([b"", b"MNLWIRE\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"])
    return exchange(server, begin + dice.randbytes(dice.randrange(1, 4000)))


def _huge(server: AttackedServer, _: Certificates, dice: random.Random) -> bytes:
    frame = dice.choice([GREETINGS["half a handshake"], _messages(server, dice)])
    return exchange(server, with_field(frame, TOTAL_BYTES, dice.choice([1 << 20, 1 << 30, *HUGE]))[:HEADER_BYTES])


def _paths(server: AttackedServer, _: Certificates, dice: random.Random) -> bytes:
    """Ask for files by paths, in every place where a name may be."""
    up = dice.choice(["../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..\\", "..%5c", "%252e%252e%252f", "....//", "..%c0%af"])
    file = dice.choice(["shared.secret", "1/model.json", "etc/passwd", "proc/self/environ", ".", ""])
    place = dice.choice(
        ["/", "//", "/v2/models/", "/v1/models/", "/v2/models/movie/versions/", "/v1/models/movie/versions/", "/v2/"]
    )
    tail = dice.choice(["", "/infer", ":predict", "/ready", "%00", "?a=" + up, "#x"])
    path = place + up * dice.randrange(1, 12) + file + tail
    if dice.random() < 0.1:
        path = dice.choice([f"file://{server.base}/shared.secret", f"http://127.0.0.1:{server.port}{path}"])
    method = dice.choice(["GET", "POST", "PUT", "DELETE", "PATCH"])
    data = f"{method} {path} HTTP/1.1\r\nHost: {up}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode()
    got = b""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_SECONDS) as sock:
        with contextlib.suppress(ConnectionError):
            sock.sendall(data)
            while part := sock.recv(1 << 16):
                got += part
    if got.startswith(b"HTTP/1.1 2"):
        return b"Traceback: answered as if there were something at " + path.encode() + got
    # An error may repeat what the stranger itself wrote.
    return got.replace(path.encode(), b"")


def _tls(server: AttackedServer, context: ssl.SSLContext, data: bytes) -> bytes:
    """Return what comes through TLS after these bytes were sent; nothing if there is no connection."""
    got = b""
    address = (server.delta_address.host, server.delta_address.port)
    with socket.create_connection(address, PATIENCE_SECONDS) as raw, contextlib.suppress(ConnectionError, ssl.SSLError):
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as sock:
            sock.sendall(data)
            while part := sock.recv(1 << 16):
                got += part
    return b"Traceback: a stranger was answered: " + got if got else b""


def _no_certificate(server: AttackedServer, certificates: Certificates, dice: random.Random) -> bytes:
    context = ssl.create_default_context(cafile=certificates["client"].ca_path)
    return _tls(server, context, _messages(server, dice))


def _foreign_certificate(server: AttackedServer, certificates: Certificates, dice: random.Random) -> bytes:
    context = ssl.create_default_context(cafile=certificates["client"].ca_path)
    context.load_cert_chain(certificates["stranger"].cert_path, certificates["stranger"].key_path)
    return _tls(server, context, _messages(server, dice))


def _older_tls(server: AttackedServer, certificates: Certificates, dice: random.Random) -> bytes:
    context = certificates["client"].client_context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    return _tls(server, context, _messages(server, dice))


Attempt = Callable[[AttackedServer, Certificates, random.Random], bytes]
_ATTEMPTS: dict[str, Attempt] = {
    "no secret": _without_secret, "wrong secret": _other_secret, "recorded proof": _replayed_proof,
    "garbage": _garbage, "huge length": _huge, "paths": _paths,
}  # fmt: skip
_TLS_ATTEMPTS: dict[str, Attempt] = {
    "TLS, no certificate": _no_certificate, "TLS, foreign certificate": _foreign_certificate,
    "TLS, older": _older_tls, "TLS port, no TLS": _without_secret, "TLS port, secret": _replayed_proof,
    "TLS port, garbage": _garbage, "TLS port, huge length": _huge,
}  # fmt: skip
