"""What the status of a process of a job says: whoever runs it starts it again after 1, and not after 2."""

import pytest

from monolith.cli.app import app
from monolith.cli.models import train
from monolith.cli.run import status_of
from monolith.errors import FencedError
from monolith.launch.roles import TrainerRole
from monolith.parallel import ParameterServer, RemoteShard
from monolith.parallel.coordination import ReplacedError
from monolith.parallel.live.shards_sender import TakenOverError
from monolith.train import online
from monolith.train.job.place import PS, place_of
from tests.parallel.served_state import PLAN
from tests.train.job.counting_job import config_of

MODEL = "tests.train.job.counting_job:Counting"
JOB = ["--num-ps=1", "--num-workers=2"]


def status(folder, *flags):
    return status_of(lambda: app(args=["train", MODEL, f"--model-dir={folder}", *flags], standalone_mode=False))


@pytest.mark.parametrize(
    ("error", "flags", "expected"),
    [
        (FencedError, JOB, 1),
        (FencedError, [*JOB, "--index=1"], 1),
        (ReplacedError, [*JOB, "--index=1"], 1),
        (ConnectionError, JOB, 1),
        (TakenOverError, JOB, 2),  # it would take the servers back from another job
        (ConnectionError, ["--enable-sync-training"], 1),
        (FencedError, ["--enable-sync-training"], 2),
        (FencedError, [], 2),
    ],
)
def test_who_was_fenced_is_started_again_if_it_has_a_place_in_its_job(tmp_path, monkeypatch, error, flags, expected):
    def fail(*args):
        raise error("so it was")

    monkeypatch.setattr(train, "_train", fail)
    assert status(tmp_path, *flags) == expected


def test_a_chief_whose_servers_are_of_a_later_one_may_be_started_again(tmp_path, capsys):
    with place_of(config_of(tmp_path), None) as place, ParameterServer(secret=place.secret) as server:
        with RemoteShard(server.address, secret=place.secret) as other:
            other.init(PLAN, 0, 1, generation=99)
        place.register(PS, 0, server.address)
        assert status(tmp_path, "--num-ps=1", "--num-workers=1", '--params={"events": 80}') == 1
        assert server.shard.generation == 99
    assert "another chief has taken over" in capsys.readouterr().err


@pytest.mark.parametrize("error", [FencedError, TimeoutError])
def test_a_trainer_of_the_demo_is_started_again_likewise(tmp_path, monkeypatch, error):
    def fail(*args, **options):
        raise error("so it was")

    monkeypatch.setattr(online, "run_online", fail)
    (tmp_path / "schema.json").touch()
    fields = {"model": MODEL, "log_path": str(tmp_path), "model_dir": "m", "export_base": "e", "name": "n"}
    role = {"server_type": "worker", "num_ps": 1, "num_workers": 2}
    assert TrainerRole(**fields, config=role).run() == 1
    with pytest.raises(error):
        TrainerRole(**fields).run()
