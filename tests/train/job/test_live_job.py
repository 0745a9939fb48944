"""A job that keeps servers up to date: what a server answers is what its newest snapshot predicts."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from monolith.delta import DeltaPart, DeltaReceiver
from monolith.export.load import load_export
from monolith.export.versions import newest_export
from monolith.wire import SharedSecret
from tests.free_port import free_port
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running
from tests.train.job.live_part import NUM_USERS, Rated, live_estimator, live_part, questions
from tests.train.job.running_job import Job

ROOT = Path(__file__).resolve().parents[3]


def predicted(model_dir, num_events):
    found = live_estimator(model_dir, num_events).predict(yield_single_examples=False)
    return torch.cat([one["pred"] for one in found]).numpy()


def asked(model):
    columns = {name: one.numpy() for name, one in questions().items() if name in ("uid", "mov")}
    return model.predict(columns)["pred"]


def test_servers_inside_the_process_send_their_rows(tmp_path):
    settings = {"is_local": True, "num_ps": 3, "export_every_seconds": 3600, "export_mode": "distributed"}
    began = time.time_ns() // 1000
    live_estimator(tmp_path, 32 * 30, **settings).train(steps=2)
    served = load_export(newest_export(tmp_path / "versions"))
    assert sorted(path.name for path in (tmp_path / "versions").glob("ps_*")) == ["ps_0", "ps_1", "ps_2"]
    assert set(served.parts) == {*(DeltaPart(shard, 3) for shard in range(3)), DeltaPart(None, 3)}
    assert all(began < number <= time.time_ns() // 1000 for number in served.parts.values()), "of senders of this run"
    receiver = DeltaReceiver(served, plan_hash=served.plan_hash, generation=served.generation, parts=served.parts)
    with receiver.listen("127.0.0.1:0", secret=SharedSecret.of_folder(tmp_path / "versions")) as listener:
        live_estimator(tmp_path, 32 * 30, sync_targets=[str(listener.address)], **settings).train()
    wanted = predicted(tmp_path, 32 * 30)
    assert np.allclose(asked(served), wanted, rtol=0, atol=1e-6)
    assert receiver.freshness.complete and receiver.freshness.watermark["event_seq"] == 32 * 30 - 1
    assert len(served.tables["uid"]) < NUM_USERS, "rows that expired are gone"
    live_estimator(tmp_path, 32 * 30, **settings).train()  # of no step: its version is the last state
    exported = load_export(newest_export(tmp_path / "versions"))
    assert np.array_equal(asked(exported), asked(served))
    # One process goes on with the same server.
    with receiver.listen("127.0.0.1:0", secret=SharedSecret.of_folder(tmp_path / "versions")) as listener:
        alone = live_estimator(tmp_path, 32 * 32, sync_targets=[str(listener.address)], export_every_seconds=3600)
        alone.train()
    assert np.allclose(asked(served), predicted(tmp_path, 32 * 32), rtol=0, atol=1e-6)


class Server:
    """A server in its own process that a job sends to."""

    def __init__(self, ready):
        self._url = ready["url"]

    def answers(self):
        instances = [{"uid": user, "mov": user % 60} for user in range(NUM_USERS)]
        reply = httpx.post(
            f"{self._url}/v1/models/rated:predict", json={"instances": instances}, timeout=PATIENCE_SECONDS
        )
        return np.array([one if isinstance(one, float) else one["pred"] for one in reply.json()["predictions"]])

    def figure(self, name):
        lines = httpx.get(f"{self._url}/metrics", timeout=PATIENCE_SECONDS).text.splitlines()
        return float(next(line for line in lines if line.startswith(name)).split()[1])


def await_truth(what, look):
    end = time.monotonic() + PATIENCE_SECONDS
    while not look():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def check_job_figures(port):
    """The chief answers for all processes of the job."""
    least = {f'server_rows{{ps="{server}",table="uid"}}': 1 for server in range(2)} | {"global_step": 1}
    for worker in range(2):
        least[f'worker_up{{worker="{worker}"}}'] = 1
        least |= {
            f'worker_{name}{{worker="{worker}"}}': 0 for name in ("steps_per_second", "staleness", "queue", "retries")
        }

    def is_whole():
        text = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_SECONDS).text
        found = dict(line.rsplit(" ", 1) for line in text.splitlines())
        return all(float(found.get(f"monolith_job_{name}", "-1")) >= value for name, value in least.items())

    await_truth("the figures of both workers and both servers", is_whole)


@pytest.mark.services
@pytest.mark.parametrize("killed", [("ps", 1), None])
def test_a_server_answers_what_the_job_has_learned_also_after_a_kill(tmp_path, killed):
    num_events = 32 * 60
    model_dir, base, address = tmp_path / "model", tmp_path / "model" / "versions", f"unix:{tmp_path}/sync"
    port = free_port()
    options = {"sync_targets": [address]}
    if killed:  # each worker has 30 batches
        options |= {"seconds": 0.03, "holds_after": 20, "metrics_port": port}
    with (
        Job(model_dir, live_part, num_events=num_events, **options) as job,
        running(base, tmp_path / "ready.json", "--wait", "--sync-address", address) as (_, ready),
    ):
        server = Server(ready)
        if killed:
            steps = model_dir / "steps-1"
            await_truth("worker 1 trains", lambda: steps.exists() and steps.stat().st_size > 12)
            check_job_figures(port)
            generation = server.figure("monolith_generation{")
            job.kill(*killed)
            job.start(*killed)
            job.go()
            await_truth("serving goes back too", lambda: server.figure("monolith_generation{") > generation)
        assert set(job.ends().values()) == {0}
        wanted = predicted(model_dir, num_events)
        await_truth("what was learned", lambda: np.allclose(server.answers(), wanted, rtol=0, atol=1e-6))
        await_truth("all parts", lambda: server.figure("monolith_sync_parts_missing{") == 0)
    assert len(load_export(newest_export(base)).parts) == 3
    if killed is None:
        check_exports_of_the_snapshot(model_dir, num_events, tmp_path)


def check_exports_of_the_snapshot(model_dir, num_events, folder):
    """One self-contained folder through both doors, also after the snapshot is gone."""
    versions = [live_estimator(model_dir, num_events).export_saved_model(export_base=folder / "api")]
    named = [
        f"{Rated.__module__}:{Rated.__name__}",
        "--model-dir",
        str(model_dir),
        "--export-base",
        str(folder / "cli"),
    ]
    subprocess.run([sys.executable, "-m", "monolith", "export", *named], check=True, cwd=ROOT, timeout=PATIENCE_SECONDS)
    versions.append(newest_export(folder / "cli"))
    wanted = predicted(model_dir, num_events)
    shutil.rmtree(model_dir)
    for version in versions:
        moved = version.rename(folder / f"moved-{version.parent.name}")
        assert np.allclose(asked(load_export(moved)), wanted, rtol=0, atol=1e-6)
