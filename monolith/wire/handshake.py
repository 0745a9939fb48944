"""How two processes prove to each other that they know the job's secret; docs/formats.md, "Handshake", has the bytes.

The client sends a nonce; the server answers with one of its own and its proof; the client sends its proof; the server
welcomes it. A proof covers both nonces, the side that gives it, and the address at which the server is reached: none
can be used again, be sent back to where it came from, or be passed on by a process that listens elsewhere.
"""

import secrets
from enum import IntEnum
from typing import Final

import numpy as np

from monolith.errors import CorruptFrameError, SecretError
from monolith.wire.connection import Connection
from monolith.wire.deadline import Deadline
from monolith.wire.frame import Header
from monolith.wire.message import Array, Kind, Message, error_reply
from monolith.wire.secret import SharedSecret

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32

MAX_HANDSHAKE_BYTES: Final = 1024
"""Longer frames are refused by their header while nobody knows who sends them."""

SECRET_CODE: Final = "secret"
"""Code of an error reply that a client raises as SecretError."""

_SERVER: Final = b"monolith wire 2: the server knows the secret\n"
_CLIENT: Final = b"monolith wire 2: the client knows the secret\n"


class Step(IntEnum):
    """Type of a handshake frame; clients send the first and the third."""

    HELLO = 1
    """`nonce`"""

    CHALLENGE = 2
    """`nonce` and `proof` of the server."""

    PROOF = 3
    """`proof` of the client."""

    WELCOME = 4
    """Nothing."""


def greet_server(connection: Connection, secret: SharedSecret, deadline: Deadline) -> None:
    """Prove to the server that this side knows the secret, after the server has proved it.

    Raises:
        SecretError: the server does not know it, asks for none, or does not believe this side.
    """
    ours = secrets.token_bytes(NONCE_BYTES)
    _send(connection, Step.HELLO, deadline, nonce=ours)
    challenge = _receive(connection, Step.CHALLENGE, deadline)
    theirs, proof = _bytes(challenge, "nonce", NONCE_BYTES), _bytes(challenge, "proof", PROOF_BYTES)
    nonces_and_place = ours + theirs + connection.remote_name.encode()
    if not secret.proves(_SERVER + nonces_and_place, proof):
        raise SecretError(
            f"the server does not know the shared secret of {secret.source}, or another process passes on what it "
            "says. Both sides must read the same file: restart the one that was started before the file was written. "
            "Through a forwarded port, use certificates"
        )
    _send(connection, Step.PROOF, deadline, proof=secret.proof(_CLIENT + nonces_and_place))
    _receive(connection, Step.WELCOME, deadline)


def check_client(connection: Connection, header: Header, secret: SharedSecret, deadline: Deadline) -> None:
    """Return once the client whose first header this is has proved that it knows the secret.

    Raises:
        SecretError: it does not know it; it got an error reply.
    """
    if header.kind == Kind.REQUEST:
        words = (
            "this server asks for the shared secret, and the client showed none; give the client the secret of the "
            "server's export folder (DeltaSettings(secret=SharedSecret.of_folder(...))), or both sides certificates"
        )
        _refuse(connection, header, words, deadline)
        raise SecretError("a client showed no secret")
    theirs = _bytes(_read(connection, header, Step.HELLO, deadline), "nonce", NONCE_BYTES)
    ours = secrets.token_bytes(NONCE_BYTES)
    nonces_and_place = theirs + ours + connection.local_name.encode()
    _send(connection, Step.CHALLENGE, deadline, nonce=ours, proof=secret.proof(_SERVER + nonces_and_place))
    answer = connection.receive_header(deadline)
    if answer is None:
        raise SecretError("a client hung up when it was asked to prove that it knows the secret; it may know another")
    proof = _bytes(_read(connection, answer, Step.PROOF, deadline), "proof", PROOF_BYTES)
    if not secret.proves(_CLIENT + nonces_and_place, proof):
        _refuse(connection, answer, "this client does not know the server's shared secret", deadline)
        raise SecretError("a client gave a wrong proof of knowing the secret")
    _send(connection, Step.WELCOME, deadline)


def refuse_greeting(connection: Connection, header: Header, deadline: Deadline) -> None:
    """Tell a client that wants a proof that there is no secret here."""
    words = (
        "this server knows no shared secret and cannot prove who it is; start it with the secret, or connect without "
        "one if you trust the process that listens there"
    )
    _refuse(connection, header, words, deadline)


def _send(connection: Connection, step: Step, deadline: Deadline, **arrays: bytes) -> None:
    content = {name: np.frombuffer(value, np.uint8) for name, value in arrays.items()}
    connection.send(Message(type=step, arrays=content), kind=Kind.HANDSHAKE, request_id=0, deadline=deadline)


def _refuse(connection: Connection, header: Header, words: str, deadline: Deadline) -> None:
    connection.refuse(error_reply(header.type, SECRET_CODE, words), header.request_id, deadline)


def _receive(connection: Connection, step: Step, deadline: Deadline) -> Message:
    header = connection.receive_header(deadline)
    if header is None:
        raise ConnectionError("the server closed the connection in the middle of the handshake")
    return _read(connection, header, step, deadline)


def _read(connection: Connection, header: Header, step: Step, deadline: Deadline) -> Message:
    if header.total_bytes > MAX_HANDSHAKE_BYTES:
        raise CorruptFrameError(
            f"a frame of a handshake has {MAX_HANDSHAKE_BYTES} bytes at most, got {header.total_bytes}"
        )
    message = connection.receive_rest(header, deadline)
    if header.kind == Kind.ERROR:
        raise SecretError(str(message.meta.get("error", "the other side ended the handshake without words")))
    if header.kind != Kind.HANDSHAKE or header.type != step:
        got = f"{header.kind.name} {header.type}"
        raise CorruptFrameError(f"expected step {step.name} of the handshake, got a frame {got}")
    return message


def _bytes(message: Message, name: str, count: int) -> bytes:
    array: Array | None = message.arrays.get(name)
    if array is None or array.dtype != np.uint8 or array.shape != (count,):
        raise CorruptFrameError(f"step {message.type} of the handshake must have {count} bytes of {name}")
    return array.tobytes()
