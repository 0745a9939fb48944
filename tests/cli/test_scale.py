"""`monolith scale` as a user runs it, and what it refuses."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.embedding.hash_shards import MAX_SHARDS
from monolith.launch.engines.job import Job
from monolith.parallel.coordination import Coordinator, Opening
from monolith.train.job.place import WORKER
from monolith.train.job.scale.scaling import Scaling
from monolith.train.job.scale.settled import check_settled
from monolith.train.job.scale.shape import CLUSTER_FOLDER, MAX_SERVERS, JobShape, ScaleOutcome
from monolith.wire import SharedSecret
from tests.wire.conftest import certificates  # noqa: F401  a fixture

OPENING = Opening(generation=3, servers=["127.0.0.1:1"], plan_hash=7, settings={})


@pytest.fixture
def chief(tmp_path):
    """The endpoint of a job of 1 parameter server and 2 workers."""
    folder = tmp_path / CLUSTER_FOLDER
    scaling = Scaling(folder, JobShape(num_ps=1, num_workers=2))
    secret = SharedSecret.made_in_folder(folder)
    with Coordinator(2, secret=secret) as coordinator, FilesServiceDiscovery(folder) as discovery:
        discovery.register(WORKER, 0, str(coordinator.address))
        coordinator.scaling = scaling
        coordinator.on_scale(scaling.ask)
        yield coordinator


def refusal(folder, *flags):
    done = CliRunner().invoke(app, ["scale", str(folder), "--timeout", "1", *flags])
    assert done.exit_code == 1
    return str(done.exception)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "say what the job is to have: --num-ps, --num-workers, or both"),
        (["--num-workers", "0"], "at least 1 worker, its chief, got 0"),
        (["--num-ps", "-1"], "1 to 65536 parameter servers, one for each shard of its tables, got -1"),
        (["--num-ps", "65537"], "got 65537"),
        (["--num-ps", "1"], "has num_ps=1 and num_workers=2 already"),
        (["--num-workers", "2", "--num-ps", "1"], "already"),
    ],
)
def test_numbers_that_no_job_can_have_are_refused(tmp_path, chief, flags, words):
    chief.open(OPENING)
    assert words in refusal(tmp_path, *flags)
    assert chief.scaling.wanted is None


def test_as_many_servers_as_shards_are_possible():
    assert MAX_SERVERS == MAX_SHARDS


def test_where_no_job_runs_the_way_to_start_one_is_said(tmp_path):
    words = refusal(tmp_path, "--num-ps", "2")
    assert "no job of several processes runs in" in words
    assert "Start it with other --num-ps and --num-workers" in words


def test_a_job_that_restores_or_ends_is_left_alone(tmp_path, chief):
    assert "not training yet" in refusal(tmp_path, "--num-ps", "2")
    chief.open(OPENING)
    chief.request_stop()
    assert "the job is ending" in refusal(tmp_path, "--num-ps", "2")


def test_a_second_request_waits_for_the_first(tmp_path, chief):
    chief.open(OPENING)
    assert "has not stopped in time" in refusal(tmp_path, "--num-ps", "2")
    assert "is being scaled to num_ps=2 and num_workers=2; wait" in refusal(tmp_path, "--num-ps", "3")


def test_what_the_source_refuses_leaves_the_job_alone(tmp_path, chief):
    def check(shape):
        raise ValueError(f"4 partitions cannot be divided among {shape.num_workers} shards")

    chief.open(OPENING)
    chief.scaling.check = check
    assert "among 9 shards" in refusal(tmp_path, "--num-workers", "9")
    assert chief.scaling.wanted is None


@pytest.mark.parametrize(
    ("what", "words"),
    [("over", "came to its end at step 9 before"), ("called off", "goes on as it was: workers [1] died")],
)
def test_what_became_of_it_is_said(tmp_path, chief, what, words):
    def stop():
        shape, request = chief.scaling.wanted, chief.scaling._request
        reason = "workers [1] died" if what == "called off" else ""
        ScaleOutcome(request=request, what=what, shape=shape, step=9, reason=reason).write(tmp_path / CLUSTER_FOLDER)

    chief.open(OPENING)
    chief.scaling.stop = stop
    assert words in refusal(tmp_path, "--num-ps", "2")


def test_a_chief_that_is_lost_before_it_stops_forgets_the_wish(tmp_path, chief):
    chief.open(OPENING)
    chief.scaling.stop = lambda: chief.open(replace(OPENING, generation=4))  # as its successor does
    assert "goes on as it was: its chief was lost before it could stop; ask again" in refusal(tmp_path, "--num-ps", "2")


def test_only_who_knows_the_secret_may_ask(tmp_path, chief):
    chief.open(OPENING)
    for path in (tmp_path / CLUSTER_FOLDER).iterdir():
        if "secret" in path.name:
            path.unlink()
    SharedSecret.made_in_folder(tmp_path / CLUSTER_FOLDER)
    assert "secret" in refusal(tmp_path, "--num-ps", "2")
    assert chief.scaling.wanted is None


def test_a_job_with_certificates_is_scaled_by_those_who_have_them(tmp_path, certificates):  # noqa: F811
    folder, ours = tmp_path / CLUSTER_FOLDER, certificates["client"]
    scaling = Scaling(folder, JobShape(num_ps=1, num_workers=1))
    secret = SharedSecret.made_in_folder(folder)
    with Coordinator(1, secret=secret, tls=certificates["server"]) as chief, FilesServiceDiscovery(folder) as discovery:
        discovery.register(WORKER, 0, str(chief.address))
        chief.on_scale(scaling.ask)
        chief.open(OPENING)
        refusal(tmp_path, "--num-ps", "2")
        assert scaling.wanted is None
        tls = ["--tls-cert", ours.cert_path, "--tls-key", ours.key_path, "--tls-ca", ours.ca_path]
        assert "has not stopped in time" in refusal(tmp_path, "--num-ps", "2", *tls)
        assert scaling.wanted == JobShape(num_ps=2, num_workers=1)


def test_the_new_shape_ends_at_the_step_that_the_old_one_would_have(tmp_path):
    folder = tmp_path / CLUSTER_FOLDER
    folder.mkdir()
    job = Job(model="a:B", folder=str(tmp_path), num_ps=1, num_workers=2, flags=["--steps=100", "--seed=1"])
    with pytest.raises(ValueError, match="nothing has"):
        job.scaled()
    shape = JobShape(num_ps=2, num_workers=3)
    ScaleOutcome(request="r", what="scaled", shape=shape, step=70, last_step=150).write(folder)
    scaled = job.scaled()
    assert (scaled.num_ps, scaled.num_workers, scaled.flags) == (2, 3, ["--seed=1", "--max-steps=150"])


def test_a_snapshot_with_pushes_beyond_its_positions_is_for_the_same_processes(tmp_path):
    notes = [{"applied": {"0/1of2": 16}, "dense_applied": {}}, {"applied": {"0/1of2": 24}, "dense_applied": {}}]
    stream = {"parts": [{"row": 8}, {"row": 16}]}

    def check(end, **numbers):
        extra = json.loads(json.dumps({"shards": notes, "offsets": {"0/0of2": 8, "0/1of2": end}}))
        check_settled(tmp_path, extra, stream, **{"num_ps": 2, "num_workers": 2, **numbers})

    check(16)  # parameter servers skip what they have applied
    for numbers in ({"num_workers": 3}, {"num_ps": 3}):
        check(24, **numbers)
        with pytest.raises(ValueError, match=r"applied more of 0/1of2 .* once with num_workers=2 and num_ps as before"):
            check(16, **numbers)
