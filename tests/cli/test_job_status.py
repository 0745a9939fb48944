"""`monolith status` as a user runs it: its tables show what the processes of a job say of themselves."""

import json
import threading

from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.parallel import ParameterServer
from monolith.parallel.coordination import Coordinator, Opening, WorkerLink
from monolith.parallel.remote_dense import RemoteDense
from monolith.train.job.place import WORKER
from monolith.train.job.scale.shape import CLUSTER_FOLDER
from monolith.train.job.status import job_figures, job_status
from monolith.wire import SharedSecret
from tests.cli.status_tables import tables_of
from tests.patience import PATIENCE_SECONDS
from tests.train.job.counting_job import BATCH
from tests.train.job.running_job import wait_until
from tests.train.job.test_ahead import OneId, train_job
from tests.wire.conftest import certificates  # noqa: F401  a fixture


def test_a_job_with_certificates_answers_those_who_have_them(tmp_path, certificates):  # noqa: F811
    folder = tmp_path / CLUSTER_FOLDER
    secret, ours = SharedSecret.made_in_folder(folder), certificates["client"]
    with Coordinator(2, secret=secret, tls=certificates["server"]) as chief, FilesServiceDiscovery(folder) as discovery:
        discovery.register(WORKER, 0, str(chief.address))
        chief.open(Opening(generation=3, servers=[], plan_hash=7, settings={}))
        ask = ["status", str(tmp_path), "--json", "--timeout", "30"]
        flags = {"--tls-cert": ours.cert_path, "--tls-key": ours.key_path, "--tls-ca": ours.ca_path}
        answer = CliRunner().invoke(app, [*ask, *(word for pair in flags.items() for word in pair)])
        assert answer.exit_code == 0, answer.output
        assert json.loads(answer.stdout)["generation"] == 3
        assert CliRunner().invoke(app, ask).exit_code != 0


def test_the_tables_have_what_chief_workers_and_servers_say(tmp_path):
    folder = tmp_path / CLUSTER_FOLDER
    secret = SharedSecret.made_in_folder(folder)
    figures = {"global_step": 1200, "steps_per_second": 3.5, "staleness": 4, "queue": 2, "retries": 6}
    with (
        Coordinator(3, secret=secret) as chief,
        FilesServiceDiscovery(folder) as discovery,
        ParameterServer(secret=secret) as server,
        WorkerLink(str(chief.address), 1, secret=secret) as link,
    ):
        discovery.register(WORKER, 0, str(chief.address))
        chief.note_status(lambda: {"chief": {"index": 0, "state": "training", "queue": 1}, "saved_step": 1000})
        opening = Opening(generation=3, servers=[str(server.address)], plan_hash=7, settings={}, global_step=1201)
        chief.open(opening)
        joined = link.join(plan_hash=7, settings={}, timeout_seconds=PATIENCE_SECONDS)
        assert joined.generation == 3
        link.record({}, global_step=1200, figures=figures)
        found = wait_until(lambda: (now := job_status(tmp_path, timeout_seconds=30))["workers"][1].get("queue") and now)
        lines, rows = tables_of(tmp_path)
        address = str(server.address)
    assert " ".join(lines).startswith("generation 3, step 1,201, newest snapshot of step 1,000")
    chiefs, first, second, held = rows
    assert (chiefs["worker"], chiefs["state"], chiefs["queue"], chiefs["step"]) == ("chief", "training", "1", "")
    assert first == {
        "worker": "worker 1",
        "state": "training",
        "step": "1200",
        "steps/s": "3.5",
        "staleness": "4",
        "queue": "2",
        "retries": "6",
        "joins": "1",
    }
    assert (second["worker"], second["state"], second["queue"]) == ("worker 2", "not here yet", "")
    process = held.pop("process MB")
    assert float(process.replace(",", "")) > 10
    assert held == {
        "server": "ps 0",
        "address": address,
        "state": "empty",
        "health": "ok",
        "rows": "0",
        "MB": "0.0",
    }
    assert ("monolith_job_worker_queue", {"worker": "1"}, 2) in list(job_figures(found))


def test_the_queue_is_the_batches_that_wait_to_be_pushed(tmp_path, monkeypatch):
    staleness, seen, looked, over, sent = 2, [], threading.Event(), threading.Event(), []
    send = RemoteDense.send

    def late(self, gradients):
        sent.append(1)
        if len(sent) > 5:
            looked.wait(2.0)  # of each batch: the reader of a busy machine may not be as far ahead as it may be
        return send(self, gradients)

    def look():
        def is_full():
            if over.is_set():
                return True
            try:
                status = job_status(tmp_path, timeout_seconds=30)
            except OSError:
                return False
            seen.append(status["workers"][0].get("queue", 0))
            return seen[-1] > staleness

        try:
            wait_until(is_full)
            seen.append(tables_of(tmp_path)[1])
        finally:
            looked.set()

    monkeypatch.setattr(RemoteDense, "send", late)
    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    result, _ = train_job(tmp_path, OneId, {"events": 40 * BATCH, "seconds": 0.002}, max_staleness=staleness)
    over.set()
    looker.join(PATIENCE_SECONDS)
    assert looked.is_set() and seen and isinstance(seen[-1], list), f"the queue was {seen}"
    assert result.global_step == 40
    chief, server = seen.pop()
    # One is being pushed, and as many wait as rows may lack pushes.
    assert max(seen) == staleness + 1
    assert chief["worker"] == "chief" and int(chief["queue"]) in range(1, staleness + 2)
    assert (server["state"], server["rows"]) == ("serving", "1"), "all events are of one id"
