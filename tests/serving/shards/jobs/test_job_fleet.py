"""`monolith launch` with parameter servers or ranks, and replicas of shards that follow it, all real processes."""

import json
import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from monolith.checkpoint.keep import roll_back
from monolith.checkpoint.keep.rollback import list_snapshots
from monolith.cli.app import app
from monolith.delta.forgetting import ask_to_forget
from monolith.model import MonolithModel
from monolith.wire import SharedSecret, TlsConfig
from tests.agree.live_witness import answer_of
from tests.agree.witness_model import asked
from tests.patience import PATIENCE_SECONDS
from tests.serving.shards.fleet import Fleet, until
from tests.serving.shards.jobs.job_model import NUM_WITH_USER, USER, SlowWitness, UserOfOldEvents
from tests.serving.shards.jobs.launched_job import LaunchedJob
from tests.train.forget.users import files_with

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]

PS_JOB = ("--num-ps", "2", "--num-workers", "2")
RANKS = ("--sync", "--num-workers", "2")
MIXED = (*RANKS, "--num-ps", "2")
TLS_FLAGS = ("--tls-cert", "--tls-key", "--tls-ca")


@contextmanager
def followed(folder: Path, *flags: str, tls: tuple[str, ...] = (), model: type[MonolithModel] = SlowWitness):
    """Yield a job, and the fleet that follows it: two replicas of shard 0, one of shard 1, and an entry."""
    job, fleet = LaunchedJob(folder, *flags, *tls, model=model), Fleet(folder / "base", folder / "run")
    fleet.options = tls
    fleet.folder.mkdir(parents=True)
    try:
        job.start()
        for shard, replica in ((0, 0), (0, 1), (1, 0)):
            fleet.start_replica(shard, replica, "--wait", *tls)
        fleet.start_entry("entry", "--sync-address", "127.0.0.1:0", *tls)
        try:
            fleet.await_ready(*fleet.processes)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{job.said()}") from error
        yield job, fleet
    finally:
        job.kill()
        fleet.close()


def ask(fleet: Fleet) -> dict[str, np.ndarray]:
    """Return an answer of all rows, of one version."""
    with fleet.client() as client:
        return answer_of(client, asked())


def step(fleet: Fleet) -> float:
    return float(ask(fleet)["step"][0])


def await_steps(fleet: Fleet, job: LaunchedJob, count: float = 3) -> float:
    """Wait until the job has taught the entry some more."""
    before = step(fleet)
    try:
        until(lambda: step(fleet) >= before + count, "the entry follows the job")
    except AssertionError as error:
        raise AssertionError(f"{error}: {before}\n{job.said()}") from error
    return step(fleet)


def check_same(fleet: Fleet, job: LaunchedJob) -> None:
    """Every way to read the shards answers what the newest snapshot predicts."""
    wanted = job.predictions()
    assert len(np.unique(wanted["pred"])) > 10, "something was learned"

    def agrees() -> bool:
        found = ask(fleet)
        return all(np.abs(found[name] - wanted[name]).max() <= 1e-6 for name in wanted)

    # Reads go to the replicas of a shard in turn.
    for _ in range(4):
        until(agrees, "the entry says what the snapshot predicts")


def a_killed_replica_catches_up(fleet: Fleet, job: LaunchedJob) -> None:
    fleet.kill("ps_0.0")
    await_steps(fleet, job)
    fleet.start_replica(0, 0, *fleet.options)
    fleet.await_ready("ps_0.0")
    await_steps(fleet, job)


@pytest.mark.parametrize("flags", [PS_JOB, RANKS], ids=["parameter servers", "ranks"])
def test_shards_follow_a_job_that_is_killed_in_parts_stopped_and_rolled_back(tmp_path, flags):
    with followed(tmp_path, *flags) as (job, fleet):
        await_steps(fleet, job)
        a_killed_replica_catches_up(fleet, job)
        if flags is PS_JOB:
            a_killed_parameter_server_takes_shards_back(fleet, job)
        job.stop()
        check_same(fleet, job)
        first = list_snapshots(job.model_dir)[-2]
        roll_back(first)
        job.start()
        number = float(first.name.rpartition("-")[2])
        last = step(fleet)
        until(lambda: number <= step(fleet) < last, "the shards go back with the job")
        await_steps(fleet, job)
        job.stop()
        check_same(fleet, job)


def a_killed_parameter_server_takes_shards_back(fleet: Fleet, job: LaunchedJob) -> None:
    generation = fleet.metric("ps_1.0", 'monolith_generation{model="witness"}')
    (pid,) = job.pids("--server-type ps", "--index 1")
    os.kill(pid, signal.SIGKILL)
    for name in ("ps_0.0", "ps_0.1", "ps_1.0", "entry"):
        until(
            lambda name=name: fleet.metric(name, 'monolith_generation{model="witness"}') > generation,
            f"{name} follows the job that began again",
        )
    await_steps(fleet, job)


def test_a_stranger_without_a_certificate_gets_nothing_of_shards_entry_and_job(tmp_path):
    certs, strangers = tmp_path / "certs", tmp_path / "strangers"
    for folder in (certs, strangers):
        assert CliRunner().invoke(app, ["certs", "new", str(folder)]).exit_code == 0
    with followed(tmp_path, *PS_JOB, tls=tls_of(certs)) as (job, fleet):
        await_steps(fleet, job)
        a_killed_replica_catches_up(fleet, job)
        fleet.processes["stranger"] = start_and_end(fleet, "stranger")
        fleet.processes["other"] = start_and_end(fleet, "other", *tls_of(strangers))
        cert, key, authority = (str(path) for path in pem_files(strangers))
        strange = TlsConfig(cert_path=cert, key_path=key, ca_path=authority)
        for address in (fleet.ready["ps_0.1"]["address"], fleet.ready["entry"]["sync_address"]):
            for proof in ({"secret": SharedSecret.of_folder(job.base)}, {"tls": strange}):
                with pytest.raises(OSError):
                    ask_to_forget(address, {"uid": range(400)}, timeout_seconds=PATIENCE_SECONDS, **proof)
        job.stop()
        check_same(fleet, job)


def pem_files(folder: Path) -> list[Path]:
    return [folder / name for name in ("node.pem", "node.key", "authority.pem")]


def tls_of(folder: Path) -> tuple[str, ...]:
    return tuple(str(one) for pair in zip(TLS_FLAGS, pem_files(folder), strict=True) for one in pair)


def start_and_end(fleet: Fleet, name: str, *tls: str):
    """An entry of strangers finds the replicas, and reads no row: it does not begin."""
    fleet.start(name, "serve", "--shards", fleet.discovery, "--port", "0", *tls)
    process = fleet.processes[name]
    assert process.wait(PATIENCE_SECONDS) == 2
    assert "no replica of shard" in (fleet.folder / f"{name}.log").read_text()
    return process


@pytest.mark.parametrize(
    "flags", [PS_JOB, (*RANKS, "--enable-controller"), (*MIXED, "--enable-controller")], ids=["ps", "ranks", "mixed"]
)
def test_an_id_is_forgotten_by_a_job_its_files_and_its_shards(tmp_path, flags):
    with followed(tmp_path, *flags, model=UserOfOldEvents) as (job, fleet):
        until(lambda: step(fleet) > 2 * NUM_WITH_USER, "the events of USER are over")
        until(lambda: job.snapshot.name != "model.ckpt-0", "there is a snapshot with USER")
        until(lambda: files_with(job.base, USER), "there is an export with USER")
        assert row_of_user(fleet) == 1
        report = forget(job, "--server", fleet.discovery)
        places = {one["place"] for one in report["found"]}
        servers = {f"the server at {fleet.ready[name]['address']}" for name in ("ps_0.0", "ps_0.1", "ps_1.0")}
        assert report["left"] == [] and f"the run in {job.model_dir}" in places
        for folder in (job.model_dir, job.base):
            assert any(one.startswith(f"{folder}/") for one in report["rewritten"]), report
        # Of the shard that had the row; unless the job's next delta was there before.
        assert {one for one in places if one.startswith("the server")} <= servers
        assert row_of_user(fleet) == 0
        await_steps(fleet, job, 60)
        job.stop()
        assert row_of_user(fleet) == 0
        assert files_with(job.model_dir, USER) == [] and files_with(job.base, USER) == []
        check_same(fleet, job)


def row_of_user(fleet: Fleet) -> float:
    with fleet.client() as client:
        return float(answer_of(client, {"uid": np.array([USER]), "mov": np.array([0])})["uid_plan"][0])


def forget(job: LaunchedJob, *flags: str) -> dict[str, Any]:
    where = ["--table", "uid", "--id", str(USER), "--export-base", str(job.base)]
    done = CliRunner().invoke(app, ["forget", str(job.model_dir), *where, *flags, "--json"])
    assert done.exit_code == 0, (done.output, done.exception, job.said())
    return json.loads(done.output)
