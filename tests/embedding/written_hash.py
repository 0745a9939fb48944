"""The hash of an id, by docs/formats.md alone."""


def hash_of(one: int) -> int:
    """Return the hash of an id of either sign."""
    mixed = one % 2**64
    mixed = (mixed ^ mixed >> 32) * 0x9FB21C651E98DF25 % 2**64
    mixed = (mixed ^ mixed >> 29) * 0xD6E8FEB86659FD93 % 2**64
    return mixed ^ mixed >> 32
