"""How tests run in several processes (`pytest -n 2`), and what is said about tests that are left out."""

import fcntl
import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


class Room:
    """The machine, which the tests of all processes share; one that has to be alone waits until it is."""

    def __init__(self, folder: Path) -> None:
        self._door, self._room = ((folder / name).open("w") for name in ("door", "room"))

    @contextmanager
    def entered(self, *, alone: bool) -> Iterator[None]:
        # Through the door one at a time: behind a test that waits to be alone, the others queue up.
        fcntl.flock(self._door, fcntl.LOCK_EX)
        fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)


# `make test-services` installs these packages. Modules that import them are not searched for doctests without them.
_MODULES_OF = {
    "ray": ["monolith/launch/engines/ray_engine.py", "tests/launch/engines/ray_nodes.py"],
    "faiss": ["monolith/checkpoint/inspect/faiss_index.py"],
}
collect_ignore = [path for package, paths in _MODULES_OF.items() if not find_spec(package) for path in paths]

ROOM_VARIABLE = "MONOLITH_TEST_ROOM"
ROOM = pytest.StashKey[Room]()
LEFT_OUT = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = 0
    if hasattr(config, "workerinput"):
        config.stash[ROOM] = Room(Path(os.environ[ROOM_VARIABLE]))
    elif getattr(config.option, "numprocesses", None):
        folder = tempfile.TemporaryDirectory(prefix="monolith-tests-")
        config.add_cleanup(folder.cleanup)
        # For the processes to come: threads of one would wait for the cores that another has.
        os.environ[ROOM_VARIABLE] = folder.name
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    # The outermost wrapper: the time spent waiting does not count towards the time limit of the test.
    if ROOM not in item.config.stash:
        return (yield)
    with item.config.stash[ROOM].entered(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have tests that are alone run last, when the others have nothing left to wait with."""
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        item.config.stash[LEFT_OUT] += item.get_closest_marker("services") is not None


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})
    node.config.stash[LEFT_OUT] = max(node.config.stash[LEFT_OUT], output.get("left_out", 0))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if count := config.stash[LEFT_OUT]:
        terminalreporter.write_line(
            f"left out: {count} tests that are slow or need services; `make test-services` runs them"
        )
