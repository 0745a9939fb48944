"""The options of `monolith new`, and what it writes."""

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from monolith.cli.console import console
from monolith.cli.new.texts import EVENTS_PY, RANKING_PY, README_MD

NUM_EVENTS = {"train": 20_000, "eval": 4_000}
NUM_USERS, NUM_MOVIES = 400, 150
ASKED = [(7, 3), (7, 4), (401, 3)]
"""Users and movies to predict; the last user is unknown."""


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make; it may exist if it is empty.")],
) -> None:
    """Write a small project that runs: a model, a data reader, CSV files, and a README with the commands.

    Example: monolith new shop
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists and is no empty folder; name another one, such as {folder}_2")
    (folder / "data").mkdir(parents=True)
    chance = random.Random(7)
    tastes = [[[chance.gauss(0, 1) for _ in range(3)] for _ in range(count)] for count in (NUM_USERS, NUM_MOVIES)]
    for name, count in NUM_EVENTS.items():
        _write_csv(folder / "data" / f"{name}.csv", "user,movie,liked", _events(chance, tastes, count))
    _write_csv(folder / "data" / "ask.csv", "user,movie", (f"{user},{movie}" for user, movie in ASKED))
    instances = ", ".join(f'{{"user": {user}, "movie": {movie}}}' for user, movie in ASKED)
    for name, text in (("ranking.py", RANKING_PY), ("events.py", EVENTS_PY), ("README.md", README_MD)):
        (folder / name).write_text(text.replace("INSTANCES", instances), encoding="utf-8")
    line = f"Wrote {folder}. Next: cd {folder}, and run the commands in README.md, one after the other."
    console.print(line, soft_wrap=True, markup=False, highlight=False)


def _events(chance: random.Random, tastes: list[list[list[float]]], count: int) -> Iterator[str]:
    """Yield made-up events: a user likes a movie by how much their tastes agree."""
    users, movies = tastes
    for _ in range(count):
        # Some users and movies are seen far more often than others.
        user, movie = (int(limit * chance.random() ** 2) for limit in (NUM_USERS, NUM_MOVIES))
        agreement = sum(a * b for a, b in zip(users[user], movies[movie], strict=True))
        yield f"{user + 1},{movie + 1},{int(chance.random() < 1 / (1 + math.exp(-agreement)))}"


def _write_csv(path: Path, head: str, lines: Iterator[str]) -> None:
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
