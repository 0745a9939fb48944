"""Damage as disks, networks and hands do it to bytes."""

import random

_SOME = 64


def damaged(content: bytes, dice: random.Random) -> tuple[str, bytes]:
    """Return the name of a way to do damage, and the content after it, which is never the same."""
    while True:
        name = dice.choice(sorted(_WAYS))
        changed = _WAYS[name](bytearray(content), dice)
        if changed != content:
            return name, bytes(changed)


def _flip(content: bytearray, dice: random.Random) -> bytearray:
    for _ in range(dice.randrange(1, 4)):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    return content


def _cut(content: bytearray, dice: random.Random) -> bytearray:
    return content[: dice.randrange(len(content))]


def _splice(content: bytearray, dice: random.Random) -> bytearray:
    """Put some bytes of it, or random ones, into another place, or take some out."""
    at, length = dice.randrange(len(content)), dice.randrange(1, _SOME)
    match dice.randrange(3):
        case 0:
            content[at:at] = content[(begin := dice.randrange(len(content))) : begin + length]
        case 1:
            content[at : at + length] = dice.randbytes(len(content[at : at + length]))
        case _:
            del content[at : at + length]
    return content


def _zeros(content: bytearray, dice: random.Random) -> bytearray:
    at, length = dice.randrange(len(content)), dice.choice([1, 4, 8, 64, 512])
    content[at : at + length] = bytes(len(content[at : at + length]))
    return content


def _swap(content: bytearray, dice: random.Random) -> bytearray:
    """Let two blocks change places."""
    length = min(dice.choice([1, 4, 8, 16, 64, 512]), len(content) // 4)
    first = dice.randrange(len(content) - 2 * length + 1)
    second = dice.randrange(first + length, len(content) - length + 1)
    content[first : first + length], content[second : second + length] = (
        content[second : second + length],
        content[first : first + length],
    )
    return content


_WAYS = {"flip": _flip, "cut": _cut, "splice": _splice, "zeros": _zeros, "swap": _swap}
