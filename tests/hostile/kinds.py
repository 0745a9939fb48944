"""Which attacks there are."""

import importlib
from typing import Protocol

from tests.hostile.report import Report

KINDS = {
    "data": "tests.hostile.data_files",
    "checkpoints": "tests.hostile.checkpoints",
}


class Kind(Protocol):
    """A module of this folder."""

    COUNT: int
    """Attacks of a campaign."""

    def attack(self, seed: int, count: int) -> Report:
        """Attack `count` times; the same seed makes the same attacks."""
        ...


def load_kind(name: str) -> Kind:
    """Return the module of a kind."""
    return importlib.import_module(KINDS[name])
