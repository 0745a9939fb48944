"""Two shards of two replicas, an entry, a server of the whole model and a live trainer, all real processes."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.serving.running_server import ROOT
from tests.serving.shards.fleet import Fleet, predict, started_fleet, until
from tests.serving.shards.live_trainer import NUM_IDS

pytestmark = pytest.mark.services

RANDOM = np.random.default_rng(0)
COLUMNS = {name: RANDOM.integers(0, NUM_IDS, 80) for name in ("uid", "mov")}


class Trainer:
    """The trainer's process; it may be killed and started again."""

    def __init__(self, folder, *targets: str) -> None:
        self.folder, self._targets = folder, targets

    def start(self) -> None:
        with (self.folder / "trainer.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.serving.shards.live_trainer", str(self.folder), *self._targets],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def finish(self) -> None:
        (self.folder / "stop").touch()
        assert self.process.wait(300) == 0, (self.folder / "trainer.log").read_text()


class Load:
    """Asks an entry again and again; every answer must be good, and be of all rows."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._end = fleet, threading.Event()
        self.num_answers, self.bad = 0, []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def await_more(self, count: int) -> None:
        wanted = self.num_answers + count
        until(lambda: self.bad or self.num_answers >= wanted, "requests are answered")

    def _run(self) -> None:
        with self._fleet.client() as client:
            while not self._end.is_set() and not self.bad:
                answer = predict(client, COLUMNS)
                if answer.status_code != 200 or "Monolith-Shards-Away" in answer.headers:
                    self.bad.append((answer.status_code, dict(answer.headers), answer.text))
                self.num_answers += 1
                self._end.wait(0.02)


def test_no_request_fails_and_all_servers_end_with_the_same_predictions(tmp_path):
    whole_address = f"unix:{tmp_path / 'whole'}"
    trainer = Trainer(tmp_path, f"files:{tmp_path / 'run' / 'found'}", whole_address)
    trainer.start()
    sync = ("--sync-address", f"unix:{tmp_path / 'entry'}")
    try:
        until(lambda: list((tmp_path / "base" / "entry").glob("*/model.json")), "there is a version")
        with started_fleet(tmp_path / "base", tmp_path / "run", 2, 2, *sync) as fleet, Load(fleet) as load:
            fleet.start("whole", "serve", "--port", "0", "--sync-address", whole_address)
            fleet.await_ready("whole")
            load.await_more(5)
            a_killed_replica_comes_back(fleet, load)
            trainer.kill()
            generation = max(sequence(fleet, name)[0] for name in fleet.processes)
            load.await_more(5)
            trainer.start()
            for name in fleet.processes:
                until(lambda name=name: sequence(fleet, name)[0] > generation, f"{name} follows the new trainer")
            load.await_more(5)
            trainer.finish()
            load.await_more(1)
            assert not load.bad, load.bad
            same_predictions(fleet)
            # What the replicas that were started again say, alone.
            for name in ("ps_0.1", "ps_1.1"):
                fleet.kill(name)
            same_predictions(fleet)
    finally:
        trainer.kill()


def a_killed_replica_comes_back(fleet: Fleet, load: Load) -> None:
    for name, shard in (("ps_0.0", 0), ("ps_1.0", 1)):
        fleet.kill(name)
        load.await_more(5)
        before = sequence(fleet, "entry")
        fleet.start_replica(shard, 0)
        fleet.await_ready(name)
        until(lambda name=name, before=before: sequence(fleet, name) > before, f"{name} has caught up")


def sequence(fleet: Fleet, name: str) -> tuple[float, float]:
    labels = '{model="movie"}'
    return fleet.metric(name, f"monolith_generation{labels}"), fleet.metric(name, f"monolith_sequence{labels}")


def same_predictions(fleet: Fleet) -> None:
    with fleet.client("entry") as entry, fleet.client("whole") as whole:
        for seed in range(3):
            random = np.random.default_rng(seed)
            columns = {name: random.integers(0, NUM_IDS + 20, 100) for name in ("uid", "mov")}
            answer = predict(entry, columns)
            assert answer.status_code == 200 and "Monolith-Shards-Away" not in answer.headers
            wanted = predict(whole, columns).json()["outputs"]
            np.testing.assert_allclose(answer.json()["outputs"], wanted, rtol=0, atol=1e-6)
            assert np.std(wanted) > 0.001, "something was learned"
