"""The collisions benchmark: how ids are made to collide, and that a row per id is worth something."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.collisions import CollisionSizes, gain, made_up_outcomes
from benchmarks.collisions.hashed_ids import colliding_share, hashed, table_size
from benchmarks.collisions.ratings import movielens


@pytest.mark.parametrize("share", [0.077, 0.029])
def test_as_many_ids_collide_as_wanted(share: float) -> None:
    ids = np.arange(1, 3_001)
    size = table_size(len(ids), share)
    shares = [colliding_share(ids, hashed(ids, size, seed)) for seed in range(20)]
    # 3,000 ids scatter by about sqrt(2 * share / 3,000); 20 hashes by less than a quarter of that.
    assert np.mean(shares) == pytest.approx(share, abs=3 * np.sqrt(2 * share / 3_000 / 20))


def test_ids_that_are_alone_stay_what_they_are() -> None:
    ids = np.array([9, 4, 9, 7, 4, 1])
    assert hashed(ids, 2**62, seed=0).tolist() == ids.tolist()
    assert hashed(ids, 1, seed=0).tolist() == [1] * 6
    some = hashed(np.arange(1_000), 5_000, seed=0)
    assert set(some) <= set(range(1_000))
    assert (some <= np.arange(1_000)).all()


def test_movielens_is_split_without_loss(tmp_path: Path) -> None:
    lines = [f"{user}\t{user + 100}\t{user % 5 + 1}\t0" for user in range(40)]
    path = tmp_path / "ml-100k.inter"
    path.write_text("user_id:token\titem_id:token\trating:float\ttimestamp:float\n" + "\n".join(lines) + "\n")
    ratings = movielens(path, seed=3)
    assert (len(ratings.train["uid"]), len(ratings.test["uid"])) == (36, 4)
    users = np.concatenate([ratings.train["uid"], ratings.test["uid"]])
    assert sorted(users.tolist()) == list(range(40))
    assert (ratings.train["mov"] == ratings.train["uid"] + 100).all()
    assert (ratings.test["label"] == (ratings.test["uid"] % 5 >= 3)).all()


def test_a_row_per_id_beats_hashed_ids() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        sizes = CollisionSizes(num_seeds=8, users=200, movies=100, num_train=40_000, num_test=40_000, batch_size=256)
        mean, error = gain(made_up_outcomes("factors", sizes, lambda stage: None))
    finally:
        torch.set_num_threads(threads)
    assert mean is not None
    assert error is not None
    assert mean > 2 * error > 0
