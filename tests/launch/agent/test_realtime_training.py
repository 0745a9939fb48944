"""An Estimator in realtime training finds the servers that an agent registered, and they follow it."""

import os
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

import monolith as mono
from monolith.cluster.discovery.zookeeper.client import connected_client
from monolith.cluster.serving.records import ContainerServiceInfo
from monolith.cluster.serving.registry import ServingRegistry
from monolith.export import load_export
from tests.agree.live_witness import answer_of
from tests.agree.witness_model import asked
from tests.launch.agent.realtime_trainer import realtime_config
from tests.launch.agent.running_agent import agent_command, available, running_agent, until
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import ROOT
from tests.serving.shards.fleet import predict
from tests.serving.shards.jobs.launched_job import LaunchedJob
from tests.serving.shards.live_trainer import NUM_IDS, Clicks

pytestmark = pytest.mark.services
ONE_VERSION = ("--export-every-seconds", "3600")
"""What a server learns after its first version, it learns from deltas."""

PARTS = ("entry", "ps_0", "ps_1")
COLUMNS = {name: np.random.default_rng(0).integers(0, NUM_IDS, 80) for name in ("uid", "mov")}


@contextmanager
def running_trainer(folder, zookeeper, found_by):
    (folder / "stop").unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.launch.agent.realtime_trainer", str(folder), zookeeper, found_by, found_by]
    with (folder / "trainer.log").open("a") as log:
        trainer = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=log
        )
    try:
        yield trainer
    finally:
        trainer.kill()
        trainer.wait()


@pytest.mark.parametrize("found_by", ["agents", "containers"])
def test_registered_servers_follow_a_realtime_run(patient_zookeeper, tmp_path, found_by):
    zookeeper = patient_zookeeper
    at = ["--zk-servers", zookeeper, "--bzid", found_by]  # each has its own nodes
    with running_trainer(tmp_path, zookeeper, found_by) as trainer:
        until(lambda: trainer.poll() is None and list((tmp_path / "base" / "entry").glob("*/model.json")))
        agent_command("declare", str(tmp_path / "base"), *at)
        agent_command("publish", "movie:*", "--layout", "all", *at)
        with (
            running_agent(*at, "--layout", "all", "--container", "box"),
            ServingRegistry(zookeeper, found_by) as registry,
        ):
            (entry,) = until(lambda: available(registry, "movie", "entry"))
            places = until(lambda: addresses_of_parts(zookeeper, found_by))
            for http in places:
                begun = sequence_of(http)
                until(lambda http=http, begun=begun: sequence_of(http) > begun)
            (tmp_path / "stop").touch()
            assert trainer.wait(PATIENCE_SECONDS) == 0, (tmp_path / "trainer.log").read_text()
            assert "did not reach" not in (tmp_path / "trainer.log").read_text()
            wanted = final_predictions(tmp_path)
            with httpx.Client(base_url=f"http://{entry.get_address()}", timeout=PATIENCE_SECONDS) as client:
                answer = until(lambda: whole(predict(client, COLUMNS)))
            np.testing.assert_allclose(answer["outputs"], wanted, rtol=0, atol=1e-6)
            agent_command("unpublish", "movie:*", "--layout", "all", *at)
            until(lambda: not registry.replicas("movie"))


def test_registered_servers_follow_the_parameter_servers_of_a_job(patient_zookeeper, tmp_path, monkeypatch):
    zookeeper = patient_zookeeper
    monkeypatch.setenv("zk_servers", zookeeper)  # the processes of the job read it
    job = LaunchedJob(tmp_path, "--num-ps", "2", "--enable-realtime-training", "--bzid", "job", *ONE_VERSION)
    at = ["--zk-servers", zookeeper, "--bzid", "job"]
    try:
        job.start()
        until(lambda: list((job.base / "entry").glob("*/model.json")))
        agent_command("declare", str(job.base), *at)
        agent_command("publish", "witness:*", "--layout", "all", *at)
        with running_agent(*at, "--layout", "all"), ServingRegistry(zookeeper, "job") as registry:
            (entry,) = until(lambda: available(registry, "witness", "entry"))
            begun = witness(entry)["step"][0]
            until(lambda: witness(entry)["step"][0] > begun + 3)
            job.stop()
            wanted = job.predictions()
            until(lambda: all(np.abs(witness(entry)[name] - wanted[name]).max() <= 1e-6 for name in wanted))
    finally:
        job.kill()


def witness(entry):
    """Return an answer of all rows, of one version."""
    with httpx.Client(base_url=f"http://{entry.get_address()}", timeout=PATIENCE_SECONDS) as client:
        return answer_of(client, asked())


def whole(answer):
    """Return an answer with the rows of all shards; None if a busy machine let one miss its deadline."""
    assert answer.status_code == 200, answer.text
    return None if "Monolith-Shards-Away" in answer.headers else answer.json()


def addresses_of_parts(zookeeper, bzid):
    """Return where each part has its figures, when all are available."""
    client = connected_client(zookeeper)
    try:
        paths = [f"/{bzid}/binding/movie/{part}:default:box" for part in PARTS]
        found = [client.get(path)[0] for path in paths if client.exists(path)]
        return [ContainerServiceInfo.from_bytes(data).http for data in found] if len(found) == len(PARTS) else None
    finally:
        client.stop()
        client.close()


def sequence_of(http):
    """Return which delta of which trainer a server has applied last."""
    with urllib.request.urlopen(f"http://{http}/metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return tuple(float(values[f'monolith_{name}{{model="movie"}}']) for name in ("generation", "sequence"))


def final_predictions(folder):
    """Return the predictions of a version that is exported from the checkpoint of the run."""
    path = mono.Estimator(Clicks, realtime_config(folder)).export_saved_model(export_base=folder / "final")
    return load_export(path).predict(COLUMNS)["pred"]
