"""The number that records of a data source carry, made from its name."""

_MASK = (1 << 32) - 1


def java_hash(text: str) -> int:
    """Return the signed 32-bit hash that Java gives a string.

    >>> java_hash("hello"), java_hash("")
    (99162322, 0)
    """
    units = text.encode("utf-16-le")
    value = 0
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK
    return value - (value >> 31 << 32)


def data_source_key(name: str) -> int:
    """Return the key that records of a data source carry: 32 bits, of which the lowest 8 are free for other uses.

    >>> data_source_key("hello") == (99162322 << 8) % 2**32
    True
    """
    return (java_hash(name) << 8) & _MASK
