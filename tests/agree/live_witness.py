"""A trainer, replicas of shards, an entry and a server of the whole model, each a real process."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import monolith as mono
from monolith.checkpoint import latest_state
from tests.agree.witness_model import NUM_IDS, Witness, asked, mixture_in
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import ROOT
from tests.serving.shards.fleet import Fleet, predict

NUM_SHARDS = 2
SERVERS = ("entry", "whole")
"""These follow the trainer by deltas."""

WITHOUT_DELTAS = "versions"
"""A server that has nothing but versions, and loads each new one under load."""

LOAD_SECONDS = 0.05
"""Between two requests under load, to each server: the machine is left to all the processes."""


class WitnessTrainer:
    """The trainer's process: it is started, ordered about, killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.base, self.plan = folder, folder / "base", 1
        self.targets = [f"files:{folder / 'run' / 'found'}", f"unix:{folder / 'whole'}"]
        self._log = folder / "trainer.log"
        self.process: subprocess.Popen[str] | None = None

    @property
    def model_dir(self) -> Path:
        """Each plan has its own: a snapshot of another plan cannot be restored."""
        return self.folder / f"model_{self.plan}"

    def start(self) -> None:
        config = {
            "model_dir": str(self.model_dir),
            "export_base": str(self.base),
            "export_num_shards": NUM_SHARDS,
            "export_every_seconds": 2.0,
            "sync_targets": self.targets,
            "sync_every_seconds": 0.05,
        }
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.agree.trainer", json.dumps({"plan": self.plan, "config": config})],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def order(self, **what: Any) -> None:
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def await_round(self) -> int:
        """Return the step it waits at; its snapshot is the newest."""
        line = self.process.stdout.readline()
        assert line, self._log.read_text()
        return json.loads(line)["step"]

    def end(self) -> None:
        """It takes a last step, saves and pushes."""
        self.order(end=True)
        assert self.process.wait(PATIENCE_SECONDS) == 0, self._log.read_text()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    @property
    def snapshot(self) -> str:
        return latest_state(self.model_dir).name

    def estimator(self) -> mono.Estimator:
        """Return an Estimator of this process that looks at what the trainer saved."""
        config = mono.RunConfig(model_dir=self.model_dir, export_base=str(self.base))
        return mono.Estimator(Witness, config, params={"plan": self.plan})

    def predictions(self) -> dict[str, np.ndarray]:
        """Return what `Estimator.predict` says of the newest snapshot."""
        (found,) = self.estimator().predict(yield_single_examples=False)
        return {name: one.numpy() for name, one in found.items()}


class Load:
    """Asks all servers again and again; no answer may fail, lack rows, or be of two versions."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._end = fleet, threading.Event()
        self.num_answers, self.bad, self.steps = 0, [], set()
        self.versions: set[float] = set()
        """What the server of versions alone answered with: the dense weights of each have their step."""
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in (*SERVERS, WITHOUT_DELTAS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _run(self, server: str) -> None:
        random = np.random.default_rng(len(server))
        with self._fleet.client(server) as client:
            while not self._end.wait(LOAD_SECONDS) and not self.bad:
                try:
                    found = answer_of(client, {name: random.integers(0, NUM_IDS, 300) for name in ("uid", "mov")})
                except Exception as error:  # noqa: BLE001  the test says it
                    self.bad.append(f"{server}: {error!r}")
                else:
                    self.num_answers += 1
                    steps = self.versions if server == WITHOUT_DELTAS else self.steps
                    steps.add(float(found["step"][0]))


def answer_of(client, columns) -> dict[str, np.ndarray]:
    """Return an answer that is whole: of all rows, of one plan and of one version of the dense weights."""
    answer = predict(client, columns, "witness")
    assert answer.status_code == 200, answer.text
    assert "Monolith-Shards-Away" not in answer.headers, dict(answer.headers)
    found = {name: np.array(values, np.float32) for name, values in answer.json()["outputs"].items()}
    assert not mixture_in(found), mixture_in(found)
    return found


def served(fleet: Fleet, names: Iterable[str]) -> dict[str, dict[str, np.ndarray]]:
    """Return what each of these servers says about every id."""
    found = {}
    for name in names:
        with fleet.client(name) as client:
            found[name] = answer_of(client, asked())
    return found
