"""Messages between processes: frames over TCP or Unix sockets, TLS or a shared secret, deadlines."""

from monolith.wire.address import Address
from monolith.wire.client import Client, connect
from monolith.wire.deadline import Deadline
from monolith.wire.frame import FrameLimits
from monolith.wire.message import Array, Message
from monolith.wire.secret import SharedSecret, make_secret
from monolith.wire.server import Handler, LastReply, Server, listen
from monolith.wire.tls import TlsConfig

__all__ = [
    "Address",
    "Array",
    "Client",
    "Deadline",
    "FrameLimits",
    "Handler",
    "LastReply",
    "Message",
    "Server",
    "SharedSecret",
    "TlsConfig",
    "connect",
    "listen",
    "make_secret",
]
