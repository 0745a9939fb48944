"""Servers, `import_saved_model` and `Estimator.predict` agree after every round, whatever happens between rounds."""

import collections
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.machine import machine_facts
from monolith.checkpoint.keep import roll_back
from monolith.export import import_saved_model
from tests.agree.live_witness import SERVERS, WITHOUT_DELTAS, Load, WitnessTrainer, served
from tests.agree.witness_model import asked
from tests.serving.shards.fleet import Fleet, until

TOLERANCE = 1e-6
EVENTS = ("replica killed", "trainer killed", "plan changed", "trainer rolled back", "trainer restarted")
"""What happens between rounds, in turn."""

SHORT, IN_SHORT = 20, ("replica killed", "trainer killed and rolled back", "plan changed")
"""So few rounds have these events alone: every start of a trainer takes seconds."""

ROUNDS_PER_EVENT = 20

REPLICAS = [(0, 0), (0, 1), (1, 0)]
"""Shard and number of each; those of shard 0 are killed."""

IMPORT_EVERY = 10
"""So many rounds after each other, one waits for a version that agrees, too."""


def differences(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> float:
    assert found.keys() == wanted.keys()
    return max(float(np.abs(found[name] - wanted[name]).max()) for name in wanted)


def events_of(num_rounds: int) -> tuple[Sequence[str], int]:
    """Return what happens, and after how many rounds the next of it."""
    return (IN_SHORT, SHORT // len(IN_SHORT)) if num_rounds <= SHORT else (EVENTS, ROUNDS_PER_EVENT)


class Campaign:
    """Rounds with events between; `counts` and `largest` are for the report."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.trainer, self.dice = WitnessTrainer(folder), dice
        self.fleet = Fleet(self.trainer.base, folder / "run")
        self.fleet.folder.mkdir()
        self.counts: collections.Counter[str] = collections.Counter()
        self.largest = 0.0
        self._had_row: np.ndarray | None = None
        self._snapshots: list[str] = []

    def start(self) -> None:
        trainer, fleet = self.trainer, self.fleet
        trainer.start()
        for shard, replica in REPLICAS:
            fleet.start_replica(shard, replica, "--wait")
        fleet.start_entry("entry", "--sync-address", f"unix:{fleet.folder / 'entry'}")
        address = f"unix:{trainer.folder / 'whole'}"
        whole = ("serve", "--port", "0", "--poll-seconds", "0.1", "--wait")
        fleet.start("whole", *whole, "--sync-address", address)
        fleet.start(WITHOUT_DELTAS, *whole)
        trainer.await_round()
        fleet.await_ready(*fleet.processes)

    def round(self) -> None:
        """Train a few steps; then all servers come to say what `Estimator.predict` says of the snapshot."""
        self.trainer.order(steps=self.dice.randint(1, 4))
        self.trainer.await_round()
        self.compare()
        self._snapshots = [*self._snapshots, self.trainer.snapshot][-8:]
        self.counts["rounds"] += 1

    def compare(self) -> dict[str, np.ndarray]:
        wanted = self.trainer.predictions()
        self._until_all_agree(lambda: served(self.fleet, SERVERS), wanted)
        has_row = wanted["uid_plan"] != 0
        if self._had_row is not None:
            self.counts["rows evicted"] += int((self._had_row & ~has_row).sum())
        self._had_row = has_row
        return wanted

    def _until_all_agree(self, ask: Callable[[], dict[str, dict[str, np.ndarray]]], wanted: dict) -> None:
        found: dict[str, float] = {}

        def agree() -> bool:
            found.update({name: differences(one, wanted) for name, one in ask().items()})
            return max(found.values()) <= TOLERANCE

        try:
            until(agree, "all agree with Estimator.predict", 0.01)
        except AssertionError as error:
            raise AssertionError(f"{error}: {found}; {dict(self.counts)}") from error
        self.largest = max(self.largest, *found.values())

    def happen(self, event: str) -> None:
        {
            "replica killed": self._kill_replica,
            "trainer killed": lambda: self._kill_trainer(None),
            "trainer killed and rolled back": lambda: self._kill_trainer(self._snapshots[0]),
            "plan changed": self._change_plan,
            "trainer rolled back": lambda: self._start_again(self._snapshots[0]),
            "trainer restarted": lambda: self._start_again(None),
        }[event]()
        self.counts[event] += 1

    def compare_import(self) -> None:
        """A version that the waiting trainer writes comes to agree too, and so does a server of versions alone."""
        wanted = self.compare()

        def versions() -> dict[str, dict[str, np.ndarray]]:
            with import_saved_model(self.trainer.base, output_name=None) as infer:
                return {"import_saved_model": infer(asked()), **served(self.fleet, [WITHOUT_DELTAS])}

        self._until_all_agree(versions, wanted)
        self.counts["imports"] += 1

    def _kill_replica(self) -> None:
        """One replica is away for a round, and comes back."""
        replica = self.dice.randrange(2)
        name = f"ps_0.{replica}"
        self.fleet.kill(name)
        self.round()
        self.fleet.start_replica(0, replica)
        self.fleet.await_ready(name)

    def _kill_trainer(self, snapshot: str | None) -> None:
        """Servers have got a part of what is lost with it, and go back to the last snapshot, or an older one."""
        self.trainer.order(steps=1000)
        steps = len(self.load.steps)
        until(lambda: self.load.bad or len(self.load.steps) > steps + 1, "servers follow", 0.01)
        self.trainer.kill()
        self._go_on(snapshot)

    def _change_plan(self) -> None:
        self.trainer.end()
        self.trainer.plan = 3 - self.trainer.plan
        self._had_row, self._snapshots = None, []
        self._go_on(None)

    def _start_again(self, snapshot: str | None) -> None:
        self.trainer.end()
        self._go_on(snapshot)

    def _go_on(self, snapshot: str | None) -> None:
        if snapshot is not None:
            roll_back(self.trainer.model_dir / snapshot)
        self.trainer.start()
        self.trainer.await_round()
        if snapshot is not None:
            assert self.trainer.snapshot == snapshot
            self._had_row, self._snapshots = None, []
        self.compare_import()

    def run(self, num_rounds: int) -> None:
        self.start()
        try:
            with Load(self.fleet) as self.load:
                self.compare_import()
                events, every = events_of(num_rounds)
                while (number := self.counts["rounds"]) < num_rounds:
                    self.round()
                    if number % IMPORT_EVERY == IMPORT_EVERY - 1:
                        self.compare_import()
                    if number % every == every - 1:
                        self.happen(events[number // every % len(events)])
                    assert not self.load.bad, self.load.bad
            assert not self.load.bad, self.load.bad
        finally:
            self.trainer.kill()
            self.fleet.close()


@pytest.mark.services
@pytest.mark.timeout(7200)  # of a thousand rounds and more; every wait inside has a limit of its own
def test_all_that_predict_agree_after_every_round(tmp_path, request):
    num_rounds, seed = request.config.getoption("--rounds"), request.config.getoption("--rounds-seed")
    campaign, began = Campaign(tmp_path, random.Random(seed)), time.monotonic()
    campaign.run(num_rounds)
    for event in events_of(num_rounds)[0]:
        assert campaign.counts[event], event
    assert campaign.counts["rows evicted"]
    assert campaign.load.num_answers > num_rounds
    assert len(campaign.load.versions) > num_rounds // ROUNDS_PER_EVENT
    if (path := request.config.getoption("--rounds-report")) is not None:
        content = {
            **campaign.counts,
            "answers under load": campaign.load.num_answers,
            "versions that answered under load": len(campaign.load.versions),
            "largest_difference_of_predictions": campaign.largest,
            "seed": seed,
            "seconds": round(time.monotonic() - began, 1),
            "machine": machine_facts(),
        }
        Path(path).write_text(json.dumps(content) + "\n")
