"""File operations of a program, written down, and what may be left of them when the power goes in the middle."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoint.power_loss.crash_states import Disk, Operation, read_log, upcoming_contents

HERE = Path(__file__).parent


class Recorded:
    """What a program did to the files below `root`."""

    def __init__(self, root: str, operations: list[Operation], contents: dict[str, bytes], output: str):
        self.root = root
        self.operations = operations
        self.output = output
        self._contents = contents
        self._upcoming = upcoming_contents(operations, contents)

    def crash_after(self, count: int, dice: random.Random, folder: Path) -> None:
        """Write into `folder` what may be on the disk if the power goes after the first `count` operations."""
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
        """What had been marked as done by then: the numbers at the end of the folders in `marks`."""
        marks = [one.path for one in self.operations[:count] if one.kind == "mkdir" and "/marks/" in one.path]
        return [int(path.rpartition("-")[2]) for path in marks]


def record(module: str, folder: Path) -> Recorded:
    """Run ``python -m module ROOT`` and return what it did below ROOT; skips the test where that cannot be seen."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler and LD_PRELOAD, to record what is done to files")
    library = folder / "file_log.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "file_log.c", "-ldl"], check=True)
    root, log = folder / "disk", folder / "log"
    root.mkdir()
    log.mkdir()
    settings = {"LD_PRELOAD": str(library), "FILE_LOG_ROOT": str(root), "FILE_LOG_DIR": str(log)}
    done = subprocess.run(
        [sys.executable, "-m", module, root],
        env={**os.environ, **settings, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    contents = {path.name: path.read_bytes() for path in log.iterdir() if path.name != "log"}
    return Recorded(str(root), read_log(log), contents, done.stdout)
