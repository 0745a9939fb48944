"""The power goes at any moment of a series of saves: the newest checkpoint that was told of restores, and is right."""

import json
import os
import random
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from monolith.checkpoint import clean_leftovers, latest_state, list_snapshots
from monolith.checkpoint.restoring.delta_chain import check_chain
from tests.checkpoint.power_loss.crash_states import Disk, Operation, read_log, upcoming_contents
from tests.checkpoint.power_loss.recorded_saves import SERIES
from tests.e2e.saving_job import digest, restored

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The operations of `recorded_saves`, what files held when synced, and the digest of each step."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler and LD_PRELOAD, to record what is done to files")
    folder = tmp_path_factory.mktemp("power_loss")
    library = folder / "file_log.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "file_log.c", "-ldl"], check=True)
    root, log = folder / "disk", folder / "log"
    root.mkdir()
    log.mkdir()
    settings = {"LD_PRELOAD": str(library), "FILE_LOG_ROOT": str(root), "FILE_LOG_DIR": str(log)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.checkpoint.power_loss.recorded_saves", root],
        env={**os.environ, **settings, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        check=True,
    )
    digests = {int(step): text for step, text in json.loads(done.stdout).items()}
    contents = {path.name: path.read_bytes() for path in log.iterdir() if path.name != "log"}
    return Recorded(str(root), read_log(log), contents, digests)


class Recorded:
    """A series of saves, as operations on files."""

    def __init__(self, root: str, operations: list[Operation], contents: dict[str, bytes], digests: dict[int, str]):
        self.root = root
        self.operations = operations
        self.digests = digests
        self._contents = contents
        self._upcoming = upcoming_contents(operations, contents)

    def crash_after(self, count: int, dice: random.Random, folder: Path) -> None:
        """Write into `folder` what may be on the disk if the power goes after so many operations."""
        disk = Disk(self.root, self._contents)
        for number, operation in enumerate(self.operations[:count]):
            disk.apply(operation, self._upcoming.get(number, b""))
        for path, content in disk.after_power_loss(dice):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                target.mkdir(exist_ok=True)
            else:
                target.write_bytes(content)

    def told(self, count: int) -> list[int]:
        """Steps whose save had returned by then."""
        marks = [one.path for one in self.operations[:count] if one.kind == "mkdir" and "/marks/" in one.path]
        return [int(path.rpartition("-")[2]) for path in marks]


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
