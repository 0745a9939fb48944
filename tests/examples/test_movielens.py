"""The example on MovieLens reads the files of the package, and both of its models learn."""

import random
import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "movielens.py"


@pytest.fixture
def folder(tmp_path):
    """Ratings in which every user likes one of two genres."""
    files = tmp_path / "recbole" / "dataset_example" / "ml-100k"
    files.mkdir(parents=True)
    chance = random.Random(0)
    genres = ["Drama War", "Comedy"]
    items = [f"{movie}\tTitle\t1990\t{genres[movie % 2]}" for movie in range(40)]
    pairs = [(chance.randrange(30), chance.randrange(40)) for _ in range(6000)]
    ratings = [f"{user}\t{movie}\t{5 if (user + movie) % 2 else 1}\t{at}" for at, (user, movie) in enumerate(pairs)]
    for name, lines in (("item", items), ("inter", ratings)):
        (files / f"ml-100k.{name}").write_text("\n".join(["a:token\tb:token\tc:token\td:token", *lines]) + "\n")
    return tmp_path


def test_both_models_learn_from_the_same_files(folder):
    example = runpy.run_path(str(EXAMPLE))
    sizes = {"user": 30, "movie": 40, "genres": 3}
    ours, plain = (
        example["run"](example["batches"](folder, dense_ids=is_plain), sizes if is_plain else None)[0]
        for is_plain in (False, True)
    )
    assert min(ours, plain) > 0.75
