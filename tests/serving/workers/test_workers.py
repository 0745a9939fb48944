"""`monolith serve --workers`: several processes answer at one port, one has the rows; any of them may be killed."""

import os
import signal
import subprocess
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from monolith.delta import DeltaSender, DeltaSettings
from monolith.export import load_export
from monolith.export.dense_graph import dense_weights
from monolith.export.versions import version_path
from monolith.wire import SharedSecret
from tests.export.movie import eager, export, request, trained
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running, start, stop
from tests.serving.shards.fleet import predict, until

COLUMNS = request(40, seed=2)


def children(pid: int) -> dict[str, int]:
    """Return the processes of a server, by name."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_text().split("\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if parent == pid and "--worker-name" in words:
            found[words[words.index("--worker-name") + 1]] = int(folder.name)
    return found


def outputs(client: httpx.Client) -> np.ndarray:
    answer = predict(client, COLUMNS)
    assert answer.status_code == 200, answer.text
    return np.array(answer.json()["outputs"])


def figure(client: httpx.Client, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


@pytest.mark.services
def test_the_story_of_a_server_with_workers(tmp_path):
    """One started server for all of it: each step goes on from the one before."""
    base, sync = tmp_path / "base", f"unix:{tmp_path / 'sync'}"
    export(base, 1, seed=3, name="movie")
    options = ("--workers", "2", "--sync-address", sync, "--poll-seconds", "0.1", "--max-batch", "40")
    with (
        (tmp_path / "log").open("w") as log,
        running(base, tmp_path / "ready", *options, stderr=log) as (server, ready),
    ):
        with httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client:
            assert set(children(server.pid)) == {"tables", "front-0", "front-1"}
            np.testing.assert_allclose(outputs(client), eager(*trained(3), COLUMNS), rtol=0, atol=1e-6)
            figures_are_those_of_all_processes(client, ready["url"])
            a_request_has_at_most_max_batch_examples(client)
            deltas_reach_every_front(base, sync, ready["url"])
            a_killed_front_is_started_again(server, client)
            a_killed_table_process_comes_back(base, server, ready["url"])
            a_new_version_answers(base, client)
        processes = children(server.pid)
        assert stop(server)[0] == 0
        for pid in processes.values():
            assert not Path(f"/proc/{pid}").exists()


def figures_are_those_of_all_processes(client, url):
    before = figure(client, "monolith_predicted_examples_total")
    for _ in range(8):  # each a connection of its own: any front may take it
        with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as another:
            outputs(another)
    assert figure(client, "monolith_predicted_examples_total") == before + 8 * 40
    assert figure(client, 'monolith_table_rows{model="movie",table="uid"}') == 200


def a_request_has_at_most_max_batch_examples(client):
    answer = predict(client, request(41))
    assert (answer.status_code, "has 41 examples, 40 at most" in answer.text) == (413, True)


def deltas_reach_every_front(base, sync, url):
    model, plan, tables = trained(3)
    weights = {name: torch.from_numpy(value) for name, value in dense_weights(model).items()}
    changed = {name: value + 0.1 if value.is_floating_point() else value for name, value in weights.items()}
    settings = DeltaSettings(secret=SharedSecret.of_folder(base))
    options = {"plan_hash": plan.hash, "generation": 2, "targets": [sync], "settings": settings}
    with DeltaSender(tables, dense_weights=lambda: (1, changed), **options) as sender:
        ids = torch.from_numpy(np.unique(COLUMNS["uid"]))
        tables["uid"].assign(ids, torch.ones(len(ids), 6))
        assert not sender.push_once().failures
        alone = load_export(version_path(base, 1))
        alone.swap_dense({name: value.numpy() for name, value in changed.items()})
        alone.apply_rows("uid", ids, torch.ones(len(ids), 6))
        wanted = alone.predict(COLUMNS)["pred"]

        def all_have_it():
            for _ in range(4):
                with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as another:
                    if not np.allclose(outputs(another), wanted, rtol=0, atol=1e-6):
                        return False
            return True

        until(all_have_it, "rows and dense weights are in force")


def a_killed_front_is_started_again(server, client):
    victim = children(server.pid)["front-0"]
    os.kill(victim, signal.SIGKILL)
    until(lambda: children(server.pid).get("front-0", victim) != victim, "the front is started again")
    with httpx.Client(base_url=client.base_url, timeout=PATIENCE_SECONDS) as another:
        outputs(another)  # the other one answers meanwhile


def a_killed_table_process_comes_back(base, server, url):
    victim = children(server.pid)["tables"]
    os.kill(victim, signal.SIGKILL)
    answers = []

    def is_back():
        with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as another:
            answers.append(predict(another, COLUMNS))
        return answers[-1].status_code == 200 and children(server.pid).get("tables", victim) != victim

    until(is_back, "the rows are there again")
    refused = [one for one in answers if one.status_code != 200]
    assert refused and all(one.status_code == 503 for one in refused)
    assert "did not answer" in refused[0].json()["error"]
    # Without a trainer it goes on from the files.
    wanted = load_export(version_path(base, 1)).predict(COLUMNS)["pred"]
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as another:
        until(lambda: np.allclose(outputs(another), wanted, rtol=0, atol=1e-6), "fronts have its weights")


def a_new_version_answers(base, client):
    before, after = outputs(client), eager(*trained(4), COLUMNS)
    export(base, 2, seed=4, name="movie")

    def has_switched():
        found = outputs(client)
        assert np.allclose(found, before, rtol=0, atol=1e-6) or np.allclose(found, after, rtol=0, atol=1e-6)
        return np.allclose(found, after, rtol=0, atol=1e-6)

    until(has_switched, "version 2 answers")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--allow-control"], "--allow-control needs one process"),
        (["--keep-versions", "2"], "--keep-versions 2 needs one process"),
        (["--shards", "static:ps_0=127.0.0.1:7001"], "start several entries instead"),
    ],
)
def test_options_that_need_one_process_are_refused(tmp_path, options, words):
    process = start(tmp_path, "--workers", "2", *options, stderr=subprocess.PIPE)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2 and words in " ".join(err.split())
