"""The power goes at any moment of a series of saves: the newest checkpoint that was told of restores, and is right."""

import json
import random
import shutil
import warnings
from pathlib import Path

import pytest

from monolith.checkpoint import clean_leftovers, latest_state, list_snapshots
from monolith.checkpoint.format.delta_chain import check_chain
from tests.checkpoint.power_loss.recorded_saves import SERIES
from tests.checkpoint.power_loss.recording import record
from tests.e2e.saving_job import digest, restored


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The operations of `recorded_saves`, what files held when synced, and the digest of each step."""
    found = record("tests.checkpoint.power_loss.recorded_saves", tmp_path_factory.mktemp("power_loss"))
    found.digests = {int(step): text for step, text in json.loads(found.output).items()}
    return found


def check_crash(recorded, count, folder):
    model_dir = folder / "work" / "model"
    told = recorded.told(count)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing that has its name may be damaged
        clean_leftovers(model_dir)
        path = latest_state(model_dir)
    if path is None:
        assert not told, f"step {told[-1]} was saved, nothing is there"
        return None
    state = restored(path)
    assert state.step >= max(told, default=0), f"step {told[-1]} was saved, {state.step} is there"
    assert digest(state) == recorded.digests[state.step]
    bases = list_snapshots(model_dir)
    for base in bases:
        check_chain([base])
    assert {one.name.rpartition(".")[2] for one in model_dir.iterdir()}.isdisjoint({"tmp", "replaced", "damaged"})
    return state.step


def test_all_operations_are_recorded(recorded):
    kinds = {one.kind for one in recorded.operations}
    assert kinds == {"create", "mkdir", "rename", "unlink", "rmdir", "sync", "syncdir"} | kinds & {"truncate"}
    synced = {Path(one.path).name for one in recorded.operations if one.kind == "sync"}
    # Python's own writes, those of the native code, through stdio, and those of safetensors.
    for name in ("manifest.json.tmp", "uid-00001-of-00002.tmp", "dense.safetensors", "erased.safetensors"):
        assert name in synced, sorted(synced)
    assert any(name.startswith("mov-00000-of-00007") for name in synced), sorted(synced)
    assert len(recorded.told(len(recorded.operations))) == len(SERIES.split())


def test_without_power_loss_everything_is_there(recorded, tmp_path):
    count = len(recorded.operations)
    recorded.crash_after(count, random.Random(0), tmp_path)
    assert check_crash(recorded, count, tmp_path) == max(recorded.digests)


@pytest.mark.timeout(1800)
def test_the_newest_that_was_told_of_restores_whenever_the_power_goes(recorded, tmp_path, request):
    tries = request.config.getoption("--power-losses", None) or 150
    seed = request.config.getoption("--power-losses-seed", 0)
    dice = random.Random(seed)
    steps = set()
    for number in range(tries):
        count = dice.randrange(len(recorded.operations) + 1)
        folder = tmp_path / str(number)
        (folder / "work").mkdir(parents=True)
        own = random.Random(f"{seed} {number}")
        recorded.crash_after(count, own, folder)
        try:
            steps.add(check_crash(recorded, count, folder))
        except Exception as error:
            error.add_note(f"after {count} operations, the last {recorded.operations[max(0, count - 3) : count]}")
            raise
        shutil.rmtree(folder)
    assert len(steps) > 4
