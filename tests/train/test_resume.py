"""A run that was stopped, or killed, and started again must not differ in one bit from one that was not."""

import json
import random
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest

import monolith as mono
from monolith.checkpoint import latest_state, list_snapshots
from monolith.data import EventLogSource
from tests.model.movie_model import MovieRanking
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS
from tests.train.recorder import Recorder
from tests.train.reported_run import train_and_report

ROOT = Path(__file__).resolve().parents[2]
NUM_EVENTS, BATCH = 256 * 24 + 100, 256
PARAMS = {"batch_size": BATCH, "dropout": 0.3}

pytestmark = pytest.mark.usefixtures("one_thread")  # as in the processes below


def run(model_dir, log, *, stop_after=None, **config):
    hook = Recorder(stop_after)
    settings = mono.RunConfig(**{"model_dir": model_dir, "log_step_count_steps": 0, **config})
    mono.Estimator(MovieRanking, settings, params={**PARAMS, "log": str(log)}).train(hooks=[hook])
    return hook


@pytest.fixture(scope="module")
def straight(one_thread, log, tmp_path_factory):
    """The run that nobody disturbed."""
    return run(tmp_path_factory.mktemp("straight"), log)


def test_every_event_is_trained_once_and_the_last_batch_is_short(straight):
    ends = [*range(0, NUM_EVENTS, BATCH), NUM_EVENTS]
    assert straight.batches == list(zip(ends, ends[1:], strict=False))
    assert len(set(straight.losses)) == len(straight.losses)


@pytest.mark.parametrize("cut", [1, 7, 16])
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path, log, straight, cut):
    first = run(tmp_path, log, stop_after=cut)
    second = run(tmp_path, log)
    assert second.first_step == cut
    assert first.losses + second.losses == straight.losses
    assert first.batches + second.batches == straight.batches
    assert second.rows == straight.rows


def test_snapshots_on_the_way_do_not_change_the_run(tmp_path, log, straight):
    hook = run(tmp_path, log, save_checkpoints_steps=3, checkpoints_max_to_keep=2)
    assert hook.losses == straight.losses
    assert [path.name for path in list_snapshots(tmp_path)] == ["model.ckpt-24", "model.ckpt-25"]


def test_a_run_that_is_over_adds_nothing(tmp_path, log):
    run(tmp_path, log)
    snapshots = list_snapshots(tmp_path)
    assert run(tmp_path, log).losses == []
    assert list_snapshots(tmp_path) == snapshots


def test_a_damaged_snapshot_is_passed_over_and_the_run_ends_the_same(tmp_path, log, straight):
    run(tmp_path, log, stop_after=9, save_checkpoints_steps=4)
    (latest_state(tmp_path) / "stream.json").write_text('{"0": 0}')
    with pytest.warns(UserWarning, match="model.ckpt-9 is not used"):
        again = run(tmp_path, log)
    assert again.first_step == 8
    assert again.losses == straight.losses[8:]
    assert again.rows == straight.rows
    assert (tmp_path / "model.ckpt-9.damaged").is_dir()


def test_each_start_has_a_generation_of_its_own(tmp_path, log):
    generations = []
    for _ in range(3):
        run(tmp_path, log, stop_after=1)
        generations.append(json.loads((latest_state(tmp_path) / "manifest.json").read_bytes())["generation"])
    assert generations == [0, 1, 2]


PROGRAM = """
import json, sys
import torch
torch.set_num_threads(1)
import monolith as mono
from tests.model.movie_model import MovieRanking
from tests.train.recorder import Recorder

class Report(Recorder):
    def after_run(self, context, values):
        super().after_run(context, values)
        print(json.dumps([values.step, values.loss, values.first, values.last]), flush=True)

hook = Report()
model_dir, params = sys.argv[1], json.loads(sys.argv[2])
config = mono.RunConfig(model_dir=model_dir, save_checkpoints_steps=3, log_step_count_steps=0)
mono.Estimator(MovieRanking, config, params=params).train(hooks=[hook])
print(json.dumps(hook.rows), flush=True)
"""


def start(model_dir, log):
    """Train in a process of its own."""
    params = json.dumps({**PARAMS, "log": str(log)})
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, model_dir, params], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


def test_killed_at_random_instants_it_ends_like_an_undisturbed_run(tmp_path, log, straight):
    """The process is killed with no chance to clean up, in the middle of steps and of snapshots."""
    chance = random.Random(5)
    told, losses, starts = [], {}, 0
    while not told or isinstance(told[-1], list):
        assert (starts := starts + 1) < 40, "the run makes no progress"
        ours, theirs = PROCESSES.Pipe(duplex=False)
        params = {**PARAMS, "log": str(log)}
        num_told, delay = chance.randint(2, 11), chance.random()
        # However late this process is, the other one has not ended, unless that is near.
        arguments = (theirs, tmp_path, params, num_told + 4)
        process = PROCESSES.Process(target=train_and_report, args=arguments, daemon=True)
        process.start()
        theirs.close()
        told = list(islice(all_from(ours), num_told))
        if told and isinstance(told[-1], list):
            # Somewhere in the next steps, not just after one.
            process.join(delay * 0.02)
            process.kill()
        told += all_from(ours)
        process.join()
        for step, loss, first, last in (one for one in told if isinstance(one, list)):
            assert (first, last) == straight.batches[step]
            # A step that was lost with the process is taken again, and gives the same.
            assert losses.setdefault(step, loss) == loss
    assert starts > 2
    assert [losses[step] for step in sorted(losses)] == straight.losses
    assert told[-1] == straight.rows


def all_from(pipe):
    """What is sent until the other end is closed."""
    with suppress(EOFError, OSError):  # it may be killed in the middle of one
        while True:
            yield pipe.recv()


def test_sigterm_ends_a_run_with_a_snapshot(tmp_path, log, straight):
    process = start(tmp_path, log)
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 0
    steps = json.loads((latest_state(tmp_path) / "manifest.json").read_bytes())["step"]
    second = run(tmp_path, log)
    assert second.first_step == steps >= 1
    assert second.losses == straight.losses[steps:]


FOLLOW = PROGRAM.replace(
    "class Report",
    """
class MovieRanking(MovieRanking):
    def input_fn(self, mode):
        return mono.data.EventLogSource(self.params["log"], batch_size=256, follow=True)

class Report""",
)


def test_sigterm_wakes_a_run_that_waits_for_events(tmp_path, log):
    params = json.dumps({**PARAMS, "log": str(log)})
    process = subprocess.Popen(
        [sys.executable, "-c", FOLLOW, tmp_path, params], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    for _ in range(NUM_EVENTS // BATCH):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert latest_state(tmp_path).name == "model.ckpt-24"


def test_the_source_is_that_of_the_model(log):
    assert isinstance(MovieRanking({"log": log}).input_fn(mono.TRAIN), EventLogSource)
