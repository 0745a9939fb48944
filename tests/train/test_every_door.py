"""Every way to train gives the same losses, bit for bit, for the same model, data and seed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import monolith as mono
from monolith.launch.roles import TrainerRole
from monolith.model.hyper_params import InstantiableParams
from monolith.native_training.cpu_training import CpuTraining, local_train, local_train_internal
from monolith.train.config import CpuTrainingConfig, RunnerConfig
from monolith.train.online import run_online
from tests.model.movie_model import MovieRanking, write_movie_log
from tests.patience import PATIENCE_SECONDS

STEPS = 6
BATCH = 64


class LossFile(mono.Hook):
    """Writes the losses of a run to a file, exactly; begun anew by `begin`."""

    def begin(self):
        self.losses = []

    def after_run(self, context, values):
        self.losses.append(values.loss.hex())

    def end(self, context):
        Path(os.environ["LOSSES"]).write_text(json.dumps(self.losses))


class Watched(MovieRanking):
    """Draws random numbers in every step, and brings its own hook."""

    def __init__(self, params=None):
        super().__init__({"log": os.environ["LOG"], "dropout": 0.2, "batch_size": BATCH})
        self.p = params if isinstance(params, InstantiableParams) else None
        self.add_training_hook(LossFile())


def estimator(folder):
    mono.Estimator(Watched, mono.RunConfig(model_dir=folder)).train(max_steps=STEPS)


def runner_config(folder):
    mono.Estimator(Watched, RunnerConfig(model_dir=folder)).train(steps=STEPS)


def local(folder):
    local_train(InstantiableParams(Watched), model_dir=folder, steps=STEPS)


def cpu_training(folder):
    training = CpuTraining(CpuTrainingConfig(), Watched())
    local_train_internal(InstantiableParams(Watched), training.config, folder, steps=STEPS)


def online(folder):
    places = {"log_path": os.environ["LOG"], "model_dir": folder / "model", "export_base": folder / "export"}
    run_online(Watched, **places, name="movie", batch_size=BATCH, max_steps=STEPS)


def live(folder):
    config = mono.RunConfig(model_dir=folder / "model", export_base=str(folder / "export"))
    mono.Estimator(Watched, config).train(max_steps=STEPS)


def command(folder):
    arguments = ["train", f"{__name__}:Watched", f"--model_dir={folder}", f"--max_steps={STEPS}"]
    subprocess.run(
        [sys.executable, "-m", "monolith", *arguments], check=True, timeout=PATIENCE_SECONDS, cwd=os.environ["ROOT"]
    )


def demo_role(folder):
    """The trainer of the demo, in this process."""
    TrainerRole(
        model=f"{__name__}:Watched",
        log_path=os.environ["LOG"],
        model_dir=str(folder / "model"),
        export_base=str(folder / "export"),
        name="movie",
        batch_size=BATCH,
        config={"seed": 0},
    ).run(max_steps=STEPS)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("doors") / "log"
    write_movie_log(path, 2 * STEPS * BATCH)
    return path


@pytest.fixture(scope="module")
def expected(log, tmp_path_factory):
    return losses(estimator, log, tmp_path_factory.mktemp("expected"))


def losses(door, log, folder):
    # The last bits of torch's sums depend on the number of threads, and the demo's trainer takes one.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _losses(door, log, folder)
    finally:
        torch.set_num_threads(before)


def _losses(door, log, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("LOG", str(log))
        patch.setenv("LOSSES", str(folder / "losses.json"))
        patch.setenv("ROOT", str(Path(__file__).parents[2]))
        door(folder)
    return json.loads((folder / "losses.json").read_text())


@pytest.mark.parametrize("door", [runner_config, local, cpu_training, online, live, command, demo_role])
def test_every_door_gives_the_same_losses(door, log, expected, tmp_path):
    assert len(expected) == STEPS
    assert len(set(expected)) == STEPS
    assert losses(door, log, tmp_path) == expected
