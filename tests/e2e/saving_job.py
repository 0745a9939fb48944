"""A run that saves without pause and is killed again and again; every start checks what the kill before it left.

Run as a program of its own: it imports everything once, stays on one thread, and forks a process per kill.
"""

import argparse
import hashlib
import json
import os
import random
import select
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from monolith._core import native
from monolith.checkpoint import (
    ModelDirOwner,
    PendingSave,
    claim_generation,
    clean_leftovers,
    latest_state,
    list_snapshots,
    load_snapshot,
)
from monolith.checkpoint.format.delta_chain import check_chain
from monolith.checkpoint.format.layout import list_deltas
from monolith.checkpoint.keep.retention import Retention, retire_snapshots
from tests.checkpoint.small_state import PLAN, State, rows_of

KEEP = 2
DELTAS = 3
"""Between two snapshots."""

LONGEST_WAIT_SECONDS = 300.0
"""For an answer of a process that is at work: far more than it takes, also on a busy machine."""


def digest(state: State) -> str:
    """Everything a state holds, as one short text."""
    held, counts = rows_of(state.tables)
    whole = hashlib.sha256(repr((state.step, counts, state.dense.tolist())).encode())
    for name in sorted(held):
        for id_, row in held[name].items():
            whole.update(repr((name, id_)).encode())
            whole.update(bytes(row))
    return whole.hexdigest()


def restored(path: Path) -> State:
    """The state that a snapshot or delta holds."""
    state = State()
    snapshot = load_snapshot(path, plan=PLAN, tables=state.tables)
    assert snapshot.stream == {"0": snapshot.step * 10}, snapshot.stream
    state.step, state.dense = snapshot.step, snapshot.dense["weight"].clone()
    return state


class Saver:
    """Saves a state: a snapshot, some deltas, a snapshot; older ones go."""

    def __init__(self, model_dir: Path, state: State, generation: int) -> None:
        self._model_dir = model_dir
        self._state = state
        self._generation = generation
        self._trackers = state.track()
        self._links: list[Path] = []

    def begin(self) -> PendingSave:
        """Take this moment and begin to write it."""
        frozen = self._state.freeze(trackers=self._trackers, generation=self._generation)

        def write() -> Path:
            if 0 < len(self._links) <= DELTAS:
                self._links.append(frozen.write_delta(self._links[-1]))
            else:
                self._links = [frozen.write_snapshot(self._model_dir, num_shards=2, in_parallel=False)]
            retire_snapshots(self._model_dir, Retention(max_to_keep=KEEP))
            return self._links[-1]

        return PendingSave(write)


def train_and_save(model_dir: Path, say: Callable[..., None]) -> None:
    """Go on from what there is, and train and save until somebody puts an end to it."""
    with ModelDirOwner(model_dir):
        clean_leftovers(model_dir)
        path = latest_state(model_dir)
        state = State() if path is None else restored(path)
        # All that retention keeps can be restored, not the newest alone.
        for base in list_snapshots(model_dir):
            check_chain([base])
        names = sorted(one.name for one in model_dir.iterdir())
        say("restored", step=state.step, digest=digest(state), names=names)
        saver = Saver(model_dir, state, claim_generation(model_dir, 0))
        while True:
            step = state.step
            pending = saver.begin()
            while not pending.done:
                state.train()
            say("saved", step=step, name=pending.wait().name)
            state.train()


class Child:
    """A forked process that tells what it does, line by line."""

    def __init__(self, work: Callable[[Callable[..., None]], None]) -> None:
        reading, writing = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            self._work(work, writing)
        os.close(writing)
        self._reading = reading
        self._buffer = b""

    @staticmethod
    def _work(work: Callable[[Callable[..., None]], None], writing: int) -> None:
        def say(event: str, **values: object) -> None:
            os.write(writing, json.dumps({"event": event, **values}).encode() + b"\n")

        try:
            work(say)
        except BaseException:  # noqa: BLE001  it ends here, whatever it was
            say("failed", error=traceback.format_exc())
        os._exit(1)

    def hear(self, seconds: float) -> dict[str, object] | None:
        """The next line within so many seconds; None if there is none, or no process any more."""
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._reading], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            data = os.read(self._reading, 1 << 16)
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        heard: dict[str, object] = json.loads(line)
        if heard["event"] == "failed":
            raise AssertionError(f"a process failed:\n{heard['error']}")
        return heard

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def close(self) -> None:
        os.close(self._reading)


@contextmanager
def uninterrupted() -> Iterator[Callable[[int], str]]:
    """Ask a run that nobody kills for its digest at a step."""
    asked, ask = os.pipe()

    def work(say: Callable[..., None]) -> None:
        os.close(ask)
        state = State()
        with os.fdopen(asked) as questions:
            for line in questions:
                step = int(line)
                while state.step < step:
                    state.train()
                say("digest", digest=digest(state))
        os._exit(0)

    child = Child(work)
    os.close(asked)

    def answer(step: int) -> str:
        os.write(ask, f"{step}\n".encode())
        heard = child.hear(LONGEST_WAIT_SECONDS)
        assert heard is not None
        return str(heard["digest"])

    try:
        yield answer
    finally:
        os.close(ask)
        os.waitpid(child.pid, 0)
        child.close()


class Campaign:
    """Kills one run after the other, and checks after each what the next one finds."""

    def __init__(self, model_dir: Path, dice: random.Random) -> None:
        self._model_dir = model_dir
        self._dice = dice
        self._saved_step = -1
        self._bases: list[str] = []  # of saves that were told to be over
        self._span = 1.0  # seconds that a snapshot and all deltas on it take
        self.interrupted: Counter[str] = Counter()
        self.num_saves = 0

    def run(self, num_kills: int) -> None:
        with uninterrupted() as digest_at:
            self._measure()
            for _ in range(num_kills):
                child = self._start()
                if self._dice.random() < 0.2:  # while it starts
                    self._listen(child, self._dice.uniform(0, self._span / 2))
                else:
                    self._check_start(child, digest_at)
                    self._listen(child, self._dice.uniform(0, self._span))
                self._kill(child)
            child = self._start()
            self._check_start(child, digest_at)
            self._kill(child)

    def _start(self) -> Child:
        return Child(lambda say: train_and_save(self._model_dir, say))

    def _measure(self) -> None:
        child = self._start()
        began = None
        for _ in range(DELTAS + 3):  # restored, and one save more than a chain has
            heard = child.hear(LONGEST_WAIT_SECONDS)
            assert heard is not None
            self._note(heard)
            began = time.monotonic() if began is None else began
        self._span = time.monotonic() - (began or 0.0)
        self._kill(child)

    def _listen(self, child: Child, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if (heard := child.hear(left)) is not None:
                self._note(heard)

    def _note(self, heard: dict[str, object]) -> None:
        if heard["event"] != "saved":
            return
        self.num_saves += 1
        self._saved_step = int(str(heard["step"]))
        if "delta" not in str(heard["name"]):
            self._bases.append(str(heard["name"]))

    def _kill(self, child: Child) -> None:
        child.kill()
        while (heard := child.hear(0)) is not None:
            self._note(heard)
        child.close()
        self.interrupted[self._interrupted()] += 1

    def _interrupted(self) -> str:
        """What a process was at when it was killed, as the folder shows it."""
        names = {path.name for path in self._model_dir.iterdir()}
        if any(name.endswith(".tmp") for name in names):
            return "writing"
        whole = [*list_snapshots(self._model_dir), *list_deltas(self._model_dir)]
        if len(list_snapshots(self._model_dir)) > KEEP or any(not (one / "manifest.json").exists() for one in whole):
            return "removing old ones"
        return "between"

    def _check_start(self, child: Child, digest_at: Callable[[int], str]) -> None:
        heard = child.hear(LONGEST_WAIT_SECONDS)
        assert heard is not None and heard["event"] == "restored", heard
        step, names = int(str(heard["step"])), [str(name) for name in list(heard["names"])]  # type: ignore[call-overload]
        assert step >= self._saved_step, f"step {self._saved_step} was saved, {step} is restored"
        assert heard["digest"] == digest_at(step), f"what is restored is not the state of step {step}"
        bases = [name for name in names if name.startswith("model.ckpt-") and ".delta-" not in name]
        assert self._bases[-1] in bases, f"{self._bases[-1]} was removed too early: {names}"
        assert len(bases) >= min(KEEP, len(self._bases)), f"one was removed too early: {names}"
        others = [name for name in names if not name.startswith("model.ckpt-")]
        assert set(others) <= {"owner.lock", "generation", "checkpoint"}, f"left behind: {names}"
        for name in names:
            ending = name.removeprefix("model.ckpt-")
            assert ending == name or ending.replace(".delta-", "").isdigit(), f"left behind: {name}"
            assert name.split(".delta-")[0] in bases + others, f"left behind without its snapshot: {name}"
        self._saved_step = step


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    native.set_num_threads(1)  # no threads before a fork
    warnings.simplefilter("error")  # nothing is damaged, so nothing may be passed over
    began = time.monotonic()
    campaign = Campaign(arguments.model_dir, random.Random(arguments.seed))
    campaign.run(arguments.kills)
    facts = {
        "kills": arguments.kills,
        "seed": arguments.seed,
        "killed_while": dict(campaign.interrupted),
        "saves": campaign.num_saves,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
