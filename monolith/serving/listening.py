"""The socket of an HTTP server: bound before a model is loaded, listening when the server can answer."""

import errno
import socket

_BACKLOG = 128


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet: early clients are refused at once."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise OSError(f"host {host!r} is not known here: {error.strerror}; choose another with --host") from error
    sock = socket.socket(family, kind, protocol)
    try:
        # A server that has just ended leaves connections behind that would keep its port for a minute.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
    except OSError as error:
        sock.close()
        raise _port_error(error, host, port) from error
    return sock


def start_listening(sock: socket.socket, host: str, port: int) -> None:
    """Let connections queue up."""
    try:
        sock.listen(_BACKLOG)
    except OSError as error:
        # Another server had bound the port too, and was faster.
        raise _port_error(error, host, port) from error


def better_bind_error(error: OSError, what: str, option: str) -> OSError:
    """Return an error that says which option chooses another address."""
    reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror or error}"
    return OSError(f"{what} {reason}; choose another with {option}")


def _port_error(error: OSError, host: str, port: int) -> OSError:
    return better_bind_error(error, f"port {port} on {host}", "--port (0 picks a free one)")
