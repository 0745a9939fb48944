"""Attacks whose end is known, for tests of the program that makes them."""

import os
import random
import signal
import threading
from pathlib import Path

from tests.hostile.children import Attacker, Outcome


def prepare(folder: Path) -> Attacker:
    """Return attacks of which the second ends the process, the third is an error, the fourth hangs."""

    def one(dice: random.Random, number: int) -> Outcome:
        match number:
            case 1:
                os.kill(os.getpid(), signal.SIGABRT)
            case 2:
                raise KeyError("what is this")
            case 3:
                threading.Event().wait()
            case 4:
                return Outcome("made", "wrong_values", f"{dice.randrange(10)}")
        return Outcome("made", "refused")

    return one
