"""Damaged and crafted checkpoints: a snapshot with two deltas on it."""

import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

from monolith.checkpoint import latest_state
from monolith.checkpoint.inspect import summarize
from monolith.errors import CorruptFileError
from monolith.model import make_tables
from tests.checkpoint.damaged_folders import REFUSED, craft, damage, made_chain, restored, write
from tests.checkpoint.small_state import PLAN, State, rows_of
from tests.hostile.children import Attacker, Outcome, attack_in_children
from tests.hostile.report import Report

COUNT = 640
CRAFTED = 0.3
"""Part of the attacks whose checksums are right."""


def attack(seed: int, count: int) -> Report:
    """Damage `count` folders, and restore every link of each."""
    return attack_in_children("checkpoints", __name__, seed, count)


def prepare(folder: Path) -> Attacker:
    """Save a good chain, and return what damages and restores it."""
    files, expected = made_chain(folder / "good")
    used = State()
    used.train(3)

    def one(dice: random.Random, number: int) -> Outcome:
        place = folder / str(number)
        is_crafted = dice.random() < CRAFTED
        if is_crafted:
            write(files, place)
            way = craft(place / dice.choice(sorted(expected)), dice)
        else:
            damaged = dict(files)
            way = damage(damaged, dice)
            if dice.random() < 0.3:
                way = "several"
                damage(damaged, dice)
            write(damaged, place)
        try:
            verdicts = {_restore(place / name, held, is_crafted, dice, used) for name, held in expected.items()}
            verdicts.add(_look(place, expected, is_crafted))
        except Exception as error:
            error.part = way
            raise
        shutil.rmtree(place)
        worst = next(one for one in ("wrong_values", "unseen", "refused", "read_right") if one in verdicts)
        return Outcome(way, worst)

    return one


def _restore(path: Path, held: object, is_crafted: bool, dice: random.Random, used: State) -> str:
    """Restore one link; into tables in use too, which a refused restore must leave as they are."""
    if (verdict := _verdict(lambda: restored(path), held, is_crafted)) == "refused" and dice.random() < 0.2:
        before = rows_of(used.tables)
        again = _verdict(lambda: restored(path, used.tables), held, is_crafted)
        return "wrong_values" if again == "refused" and rows_of(used.tables) != before else again
    return verdict


def _look(folder: Path, expected: dict[str, object], is_crafted: bool) -> str:
    """Ask for the newest usable state, which must be usable, and for what `ckpt show` shows."""
    for name in expected:
        try:
            summarize(folder / name)
        except REFUSED:
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            newest = latest_state(folder)
        except CorruptFileError:
            return "refused"  # of a later format, it says
    if newest is None or is_crafted:
        return "refused" if newest is None else "read_right"
    verdict = _verdict(lambda: restored(newest, make_tables(PLAN)), expected[newest.name], is_crafted)
    return "wrong_values" if verdict == "refused" else verdict


def _verdict(restore: Callable[[], object], held: object, is_crafted: bool) -> str:
    try:
        if restore() == held:
            return "read_right"
    except REFUSED:
        return "refused"
    return "unseen" if is_crafted else "wrong_values"
