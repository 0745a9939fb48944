"""Snapshots and deltas damaged at random: refused, or restored to what they were. Never anything else."""

import random
import warnings

import pytest

from monolith.checkpoint import latest_state
from monolith.checkpoint.inspect import summarize
from monolith.errors import CorruptFileError
from tests.checkpoint.damaged_folders import REFUSED, craft, damage, made_chain, restored, write


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """The files of a snapshot and two deltas on it, and what each of the three restores to."""
    return made_chain(tmp_path_factory.mktemp("chain"))


@pytest.mark.parametrize("seed", range(60))
def test_damaged_folders_are_refused_or_right(chain, tmp_path, seed):
    files, rows = chain
    dice = random.Random(seed)
    damaged = dict(files)
    for _ in range(dice.randrange(1, 3)):
        damage(damaged, dice)
    write(damaged, tmp_path)
    for name, expected in rows.items():
        try:
            assert restored(tmp_path / name) == expected
        except REFUSED:
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        newest = latest_state(tmp_path)
    # What is called usable can be used.
    assert newest is None or restored(newest) == rows[newest.name]


def test_files_of_an_older_snapshot_do_not_pass_for_those_of_a_newer_one(chain, tmp_path):
    files, _ = chain
    old, new = "model.ckpt-4.delta-1/", "model.ckpt-4.delta-2/"
    for part in ("filters/", "tables/uid", "tables/mov", "dense", "erased"):
        mixed = {
            name: files[name.replace(new, old)] if name.startswith(new + part) else content
            for name, content in files.items()
        }
        assert mixed != files
        write(mixed, tmp_path / part)
        with pytest.raises(CorruptFileError, match="checksum|bytes"):
            restored(tmp_path / part / "model.ckpt-4.delta-2")


@pytest.mark.parametrize("seed", range(60))
def test_crafted_folders_are_refused_or_harmless(chain, tmp_path, seed):
    files, rows = chain
    dice = random.Random(1000 + seed)
    write(files, tmp_path)
    craft(tmp_path / dice.choice(["model.ckpt-4", "model.ckpt-4.delta-2"]), dice)
    for name in rows:
        try:
            restored(tmp_path / name)
        except REFUSED:
            pass
        try:
            summarize(tmp_path / name)
        except REFUSED:
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            latest_state(tmp_path)
        except CorruptFileError:
            pass  # of a later format, it says
