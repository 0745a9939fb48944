"""Real processes: two shards of two replicas each, and an entry that predicts from their rows."""

import signal

import httpx
import numpy as np
import pytest

from monolith.export import load_export
from monolith.export.versions import version_path
from tests.export.movie import export, request
from tests.serving.shards.fleet import Fleet, predict, started_fleet, until

pytestmark = pytest.mark.services

COLUMNS = request(60, seed=1)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    export(folder / "base", 1, seed=3, num_shards=2, name="movie")
    with started_fleet(folder / "base", folder / "run") as made:
        yield made


@pytest.fixture
def client(fleet):
    with fleet.client() as made:
        yield made


def alone(fleet: Fleet, version: int) -> np.ndarray:
    return load_export(version_path(fleet.base, version)).predict(COLUMNS)["pred"]


def test_the_story_of_a_fleet(fleet, client):
    """One started fleet for all of it: each step goes on from the one before."""
    predictions_are_those_of_one_process(fleet, client)
    no_request_fails_when_a_replica_is_killed(fleet, client)
    a_stopped_replica_costs_no_rows(fleet, client)
    a_new_version_answers_once_its_rows_are_there(fleet, client)
    a_shard_that_is_away_is_counted_and_named(fleet, client)
    a_signal_ends_a_replica_and_takes_its_address_back(fleet)


def predictions_are_those_of_one_process(fleet, client):
    answer = predict(client, COLUMNS)
    assert answer.status_code == 200, answer.text
    assert "Monolith-Shards-Away" not in answer.headers
    np.testing.assert_allclose(answer.json()["outputs"], alone(fleet, 1), rtol=0, atol=1e-6)

    def knows_all_replicas():
        predict(client, COLUMNS)  # replicas are looked for when rows are read
        return fleet.metric("entry", 'monolith_shard_replicas{model="movie",shard="1"}') == 2

    until(knows_all_replicas, "the entry knows both replicas")
    with fleet.client("ps_0.0") as health:
        assert health.get("/v2/health/ready").json() == {"ready": True}
    rows = [fleet.metric(f"ps_{shard}.0", 'monolith_table_rows{model="movie",table="uid"}') for shard in range(2)]
    assert sum(rows) == 200 and min(rows) > 0


def no_request_fails_when_a_replica_is_killed(fleet, client):
    wanted = alone(fleet, 1)
    for name in ("ps_0.0", "ps_1.1"):
        fleet.kill(name)
        for _ in range(5):
            answer = predict(client, COLUMNS)
            assert answer.status_code == 200 and "Monolith-Shards-Away" not in answer.headers
            np.testing.assert_allclose(answer.json()["outputs"], wanted, rtol=0, atol=1e-6)
    fleet.start_replica(0, 0)
    fleet.start_replica(1, 1)
    fleet.await_ready("ps_0.0", "ps_1.1")


def _is_hedged(fleet, name, client, wanted) -> bool:
    """Ask, and return whether the entry has asked a rival by now: it asks the replicas in turn, once it knows them."""
    answer = predict(client, COLUMNS)
    assert answer.status_code == 200 and "Monolith-Shards-Away" not in answer.headers
    np.testing.assert_allclose(answer.json()["outputs"], wanted, rtol=0, atol=1e-6)
    return fleet.metric(name, 'monolith_hedged_reads_total{model="movie",shard="0"}') > 0


def a_stopped_replica_costs_no_rows(fleet, client):
    """Neither an entry that knows all replicas, nor one that has not heard of the others yet; the deadline is long."""
    wanted = alone(fleet, 1)
    found, hidden = fleet.folder / "found" / "ps_0.1", fleet.folder / "ps_0.1.hidden"
    found.rename(hidden)
    fleet.start_entry("unaware", "--entry-index", "3")
    fleet.await_ready("unaware")
    hidden.rename(found)
    stopped = fleet.processes["ps_0.0"]
    stopped.send_signal(signal.SIGSTOP)
    try:
        with fleet.client("unaware") as unaware:
            for name, asked in (("unaware", unaware), ("entry", client)):
                until(
                    lambda n=name, a=asked: _is_hedged(fleet, n, a, wanted), f"{name} asks a rival of the stopped one"
                )
    finally:
        stopped.send_signal(signal.SIGCONT)


def a_new_version_answers_once_its_rows_are_there(fleet, client):
    before = alone(fleet, 1)
    export(fleet.base, 2, seed=4, num_shards=2, name="movie")
    after = alone(fleet, 2)

    def has_switched():
        answer = predict(client, COLUMNS)
        assert answer.status_code == 200 and "Monolith-Shards-Away" not in answer.headers
        found = np.array(answer.json()["outputs"])
        is_after = np.allclose(found, after, rtol=0, atol=1e-6)
        assert is_after or np.allclose(found, before, rtol=0, atol=1e-6), "an answer mixes two versions"
        return is_after

    until(has_switched, "version 2 answers")


def a_shard_that_is_away_is_counted_and_named(fleet, client):
    fleet.start_entry("hasty", "--rpc-deadline-millis", "300", "--entry-index", "1")
    fleet.start_entry("strict", "--rpc-deadline-millis", "300", "--require-rows", "--entry-index", "2")
    fleet.await_ready("hasty", "strict")
    for name in ("ps_1.0", "ps_1.1"):
        fleet.kill(name)
    with fleet.client("hasty") as hasty, fleet.client("strict") as strict:
        answer = predict(hasty, COLUMNS)
        assert answer.status_code == 200 and answer.headers["Monolith-Shards-Away"] == "1"
        assert fleet.metric("hasty", 'monolith_default_rows_total{model="movie",shard="1"}') > 0
        answer = predict(strict, COLUMNS)
        assert answer.status_code == 503 and "shards [1] did not answer" in answer.json()["error"]
        fleet.start_replica(1, 0)
        fleet.await_ready("ps_1.0")
        until(lambda: predict(strict, COLUMNS).status_code == 200, "the shard answers again")
        until(lambda: "Monolith-Shards-Away" not in predict(hasty, COLUMNS).headers, "no row is missing")
        np.testing.assert_allclose(predict(hasty, COLUMNS).json()["outputs"], alone(fleet, 2), rtol=0, atol=1e-6)


def a_signal_ends_a_replica_and_takes_its_address_back(fleet):
    process = fleet.processes["ps_0.1"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert not (fleet.folder / "found" / "ps_0.1").exists()
    with pytest.raises(httpx.ConnectError), fleet.client("ps_0.1") as gone:
        gone.get("/v2/health/live")
