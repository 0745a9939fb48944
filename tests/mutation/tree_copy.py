"""A copy of the source tree in which one line at a time may be wrong."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutation.catalogue import NATIVE_SUFFIXES, Mutation

BUILT = ("monolith/**/*.so", "monolith/**/*.pyi")
"""What git ignores and tests need: the native core and the stubs."""

BUILD = "build/dev"
BUILD_SECONDS = 1800
LAST_CHARACTERS = 4000
TESTS_PASSED, TESTS_FAILED = 0, 1

START_UP = "sitecustomize.py"
WITHOUT_EDITABLE_INSTALL = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "ScikitBuildInplaceFinder"]
"""
"""An editable install finds the tree that was copied before PYTHONPATH is looked at; Python runs this after it.

It lies in the copy's own folder, which is in the PYTHONPATH of every process that a test starts.
"""


class BuildError(Exception):
    """The native core does not build; the message is the end of what the compiler wrote."""


class TreeCopy:
    """The files of a repository, built and unbuilt, in a folder of their own."""

    def __init__(self, root: Path, folder: Path, *, seed: int) -> None:
        """Copy the tree; tests run in the random order of `seed`."""
        self._folder, self._seed = folder, seed
        self._is_built = True
        for name in _file_names(root):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target, follow_symlinks=False)
        (folder / START_UP).write_text(WITHOUT_EDITABLE_INSTALL)

    def write(self, name: str, text: str) -> None:
        """Write one file; a source of the native core is built before the next tests."""
        self._write(self._folder / name, text)

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        """Have one wrong line inside this block."""
        path = self._folder / mutation.file
        right = path.read_text(encoding="utf-8")
        self._write(path, mutation.apply(right))
        try:
            yield
        finally:
            self._write(path, right)

    def run_tests(self, tests: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """Return pytest's exit status, None after the time limit, and the end of what it wrote.

        Raises:
            BuildError: The native core had to be built first, and does not build.
        """
        if not self._is_built:
            self._build()
        # `-m ""`: also those that only `make test-services` runs.
        options = ["-x", "-q", "--no-header", "-m", "", "-p", "no:cacheprovider", f"--randomly-seed={self._seed}"]
        return self._run([sys.executable, "-m", "pytest", *options, *tests], seconds)

    def _build(self) -> None:
        if not (self._folder / BUILD / "build.ninja").exists():
            launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
            place = ["-S", ".", "-B", BUILD, "-G", "Ninja", "-DMONOLITH_INPLACE=ON"]
            self._must_run(["cmake", *place, f"-DPython_EXECUTABLE={sys.executable}", *launcher])
        self._must_run(["cmake", "--build", BUILD])
        self._is_built = True

    def _must_run(self, command: Sequence[str]) -> None:
        status, output = self._run(command, BUILD_SECONDS)
        if status != 0:
            raise BuildError(output)

    def _run(self, command: Sequence[str], seconds: float) -> tuple[int | None, str]:
        # Before everything else that names the package.
        environment = {**os.environ, "PYTHONPATH": str(self._folder), "CCACHE_BASEDIR": str(self._folder)}
        with open(self._folder / ".mutation-output", "w+b") as output:
            process = subprocess.Popen(
                command, cwd=self._folder, env=environment, stdout=output, stderr=output, start_new_session=True
            )
            try:
                status: int | None = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                _end_session(process)
            output.seek(0)
            return status, output.read().decode(errors="replace")[-LAST_CHARACTERS:]

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        if path.suffix in NATIVE_SUFFIXES:
            self._is_built = False
        elif path.suffix == ".py":
            # Python knows compiled code by the size of its source and the second of its change: both may be as before.
            Path(importlib.util.cache_from_source(os.fspath(path))).unlink(missing_ok=True)


def _file_names(root: Path) -> list[str]:
    """Return the files that git has or would take, and what was built."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    known = subprocess.run(listing, cwd=root, check=True, capture_output=True).stdout.decode().split("\0")
    built = [path.relative_to(root).as_posix() for pattern in BUILT for path in root.glob(pattern)]
    return [name for name in dict.fromkeys([*known, *built]) if name and (root / name).exists()]


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """End what the tests have left running, too."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
