"""One process of a job as discovery names it: a name, an index and an address that others can reach."""

import re

from monolith.errors import shown
from monolith.wire.address import Address

_NAME = re.compile(r"[A-Za-z0-9_-]+")


def checked(name: str, index: int, addr: str) -> str:
    """Return the address, after a check of all three.

    >>> checked("ps", 0, "[::1]:7001")
    '[::1]:7001'

    Raises:
        ValueError: the name has other letters than a-z, A-Z, 0-9, _ and -, the index is negative, or nobody can
            connect to the address.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"a name in discovery has letters, digits, _ and - only, got {shown(name)}")
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise ValueError(f"the index of {name!r} must be an integer from 0, got {shown(index)}")
    try:
        address = Address.parse(addr)
    except ValueError as error:
        raise ValueError(f"Invalid addr: {shown(addr)}: {error}") from None
    if address.path is None and address.port == 0:
        raise ValueError(f"Invalid addr: {addr!r}: port 0 is no place to connect to; register after listening")
    return addr
