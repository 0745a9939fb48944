"""TPURunner: what its flags do, training on an XLA device and on the processor, evaluation of all checkpoints."""

import logging
import subprocess
import sys
import threading
import types
from pathlib import Path

import pytest
import torch

import monolith as mono
from monolith import tpu_runner
from monolith.checkpoint import latest_state, list_snapshots
from monolith.model.hyper_params import named_model
from monolith.tpu_runner import TpuFlags, TPURunner, main
from monolith.train.config import RunnerConfig
from monolith.train.device.xla import xla_device
from monolith.train.trained_model import TrainedModel
from tests.patience import PATIENCE_SECONDS
from tests.train.device import tpu_task
from tests.train.device.tpu_task import NUM_EVENTS, Dated, SmallTask, SmallTaskParams

ROOT = Path(__file__).resolve().parents[3]
TASK = "tests.train.device.tpu_task:SmallTaskParams"


@pytest.fixture(autouse=True)
def nothing_seen():
    tpu_task.SEEN.clear()


@pytest.fixture
def xla(monkeypatch):
    """Stand in for torch_xla: it names the processor as its device, and notes what is asked of it."""
    module = types.ModuleType("torch_xla")
    module.asked = []
    module.device = lambda: module.asked.append("device") or torch.device("cpu")
    module.sync = lambda: module.asked.append("sync")
    monkeypatch.setitem(sys.modules, "torch_xla", module)
    return module


@pytest.fixture
def no_xla(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_xla", None)


def flags(folder, **changes):
    return TpuFlags(**{"model_dir": str(folder), "host_call_every_n_steps": 0, **changes})


def runner_of(folder, **changes):
    return TPURunner(SmallTaskParams().task(), flags(folder, **changes))


def state_of(folder):
    found = TrainedModel(SmallTask(), latest_state(folder))
    ids = torch.arange(40)
    return [found.tables[name].lookup(ids) for name in ("user", "movies")] + list(found.model.parameters())


def test_training_on_a_device_gives_the_bits_of_training_on_the_processor(tmp_path, xla):
    estimator = mono.Estimator(
        SmallTaskParams().task(),
        RunnerConfig(is_local=True, model_dir=tmp_path / "plain", save_summary_steps=0),
    )
    estimator.train(steps=2)
    estimator.train()
    runner = runner_of(tmp_path / "device")
    assert runner.task_param.accelerator == "tpu"
    runner.task_param.train.max_steps = 2
    assert runner.run().global_step == 2
    runner = runner_of(tmp_path / "device")  # its optimizer's state is restored to the device
    assert runner.global_step() == 2
    assert runner.run().global_step == 3
    assert xla.asked == ["device", "sync", "sync", "device", "sync"]
    for one, other in zip(state_of(tmp_path / "plain"), state_of(tmp_path / "device"), strict=True):
        assert torch.equal(one, other)
    trained, replicas = runner.create_tpu_estimator()
    assert replicas == 1
    assert trained.evaluate()["num_events"] == NUM_EVENTS  # on the processor


def test_without_torch_xla_it_says_what_to_install_and_how_to_do_without(tmp_path, no_xla):
    with pytest.raises(ImportError, match="needs the package torch_xla .* or pass --cpu-test"):
        runner_of(tmp_path).run()
    with pytest.raises(ImportError):
        xla_device()
    assert list_snapshots(tmp_path) == []


def test_a_device_is_of_one_process(tmp_path, xla):
    estimator, _ = runner_of(tmp_path).create_tpu_estimator()
    estimator.config.num_ps = 2
    with pytest.raises(NotImplementedError, match="num_ps=2.* is of one process"):
        estimator.train()


def test_the_test_on_the_processor_has_small_batches(tmp_path, no_xla):
    assert runner_of(tmp_path, cpu_test=True).run().global_step == 3
    assert {one["batch_size"] for one in tpu_task.SEEN} == {tpu_runner.CPU_TEST_BATCH_SIZE}


def test_the_task_says_how_often_checkpoints_are_written(tmp_path, no_xla):
    task = SmallTaskParams().task()
    runner = TPURunner(task, flags(tmp_path, cpu_test=True, save_checkpoints_steps=2))
    assert runner.save_checkpoints_steps == 2
    runner.run()
    assert [path.name for path in list_snapshots(tmp_path)] == ["model.ckpt-0", "model.ckpt-2", "model.ckpt-3"]
    task.train.save_checkpoints_steps = 1
    assert TPURunner(task, flags(tmp_path, save_checkpoints_steps=2)).save_checkpoints_steps == 1
    assert task.accelerator is None  # the caller's parameters stay as they are


def test_the_end_date_can_be_overwritten(tmp_path, no_xla):
    TPURunner(SmallTask, flags(tmp_path / "own", cpu_test=True)).run()
    assert {one["end_date"] for one in tpu_task.SEEN} == {"20260101"}
    tpu_task.SEEN.clear()
    TPURunner(SmallTask, flags(tmp_path / "own", cpu_test=True, overwrite_end_date="20260303")).run()
    assert {one["end_date"] for one in tpu_task.SEEN} == {"20260303"}
    tpu_task.SEEN.clear()
    # A model without such a parameter reads the setting of the run.
    TPURunner(Dated, flags(tmp_path / "setting", cpu_test=True, overwrite_end_date="20260404")).run()
    assert {one["end_date"] for one in tpu_task.SEEN} == {"20260404"}


def test_eval_goes_through_all_checkpoints_and_ends_at_max_steps(tmp_path, no_xla):
    runner_of(tmp_path, cpu_test=True, save_checkpoints_steps=1).run()
    found = runner_of(tmp_path, mode="eval", host_call_every_n_steps=1).run()
    assert list(found) == [0, 1, 2, 3]
    assert found[3]["loss"] < found[0]["loss"]
    assert {one["batch_size"] for one in tpu_task.SEEN if one["mode"] == mono.EVAL} == {48}
    written = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    # One file: files of one second are read in the order of their names, which is not that of the steps.
    assert len(list((tmp_path / "eval").iterdir())) == 1
    events = written.EventAccumulator(str(tmp_path / "eval")).Reload().Scalars("loss")
    assert [one.step for one in events] == [0, 1, 2, 3]
    assert events[3].value == pytest.approx(found[3]["loss"])


def test_eval_follows_a_run_until_its_last_step(tmp_path, no_xla, monkeypatch):
    monkeypatch.setattr(tpu_runner, "POLL_SECONDS", 0.01)
    runner = runner_of(tmp_path, mode="eval", eval_timeout_secs=PATIENCE_SECONDS)
    evaluation = runner.evaluate(runner.create_tpu_estimator_on_cpu())
    training = threading.Thread(target=runner_of(tmp_path, cpu_test=True).run)
    training.start()
    steps = [step for step, _ in evaluation]
    training.join(PATIENCE_SECONDS)
    assert steps[-1] == 3
    assert steps == sorted(steps)


def test_eval_without_a_checkpoint_ends_when_none_came_in_time(tmp_path, no_xla):
    assert runner_of(tmp_path, mode="eval", eval_timeout_secs=0.0).run() == {}


def test_eval_passes_over_a_checkpoint_that_was_removed_meanwhile(tmp_path, no_xla, monkeypatch):
    runner_of(tmp_path, cpu_test=True, save_checkpoints_steps=1).run()
    runner = runner_of(tmp_path, mode="eval")
    estimator = runner.create_tpu_estimator_on_cpu()
    evaluate = estimator.evaluate

    def removed(steps, checkpoint_path):
        if checkpoint_path.endswith("-1"):
            Path(checkpoint_path).rename(tmp_path / "removed")
        return evaluate(steps, checkpoint_path=checkpoint_path)

    monkeypatch.setattr(estimator, "evaluate", removed)
    assert [step for step, _ in runner.evaluate(estimator)] == [0, 2, 3]


@pytest.mark.parametrize(
    ("parameter", "events"), [({"eval.steps": 1}, 48), ({"input.eval_examples": 60}, 48), ({}, 96)]
)
def test_the_task_says_how_much_of_the_data_is_evaluated(tmp_path, no_xla, parameter, events):
    runner_of(tmp_path, cpu_test=True).run()
    task = SmallTaskParams().task().set(**parameter)
    found = TPURunner(task, flags(tmp_path, mode="eval")).run()
    assert found[3]["num_events"] == events


def test_train_and_eval_is_refused(tmp_path):
    with pytest.raises(TypeError, match="train_and_eval is not supported: train in one process"):
        runner_of(tmp_path, mode="train_and_eval").run()
    with pytest.raises(ValueError, match="--mode must be train or eval, got 'trian'"):
        runner_of(tmp_path, mode="trian").run()


def test_flags_without_a_meaning_say_so(tmp_path):
    for name, value in (("tpu", "node-1"), ("partition_strategy", "mod"), ("pipeline_execution", True)):
        with pytest.warns(UserWarning, match=f"--{name.replace('_', '-')} has no effect: "):
            flags(tmp_path, **{name: value})


def test_main_runs_the_task_that_its_flags_name(tmp_path, no_xla, caplog):
    arguments = ["tpu_runner", "--task", TASK, "--cpu_test", f"--model_dir={tmp_path}", "--host_call_every_n_steps=0"]
    with caplog.at_level(logging.INFO, logger="monolith.tpu_runner"):
        main(arguments)
    assert "flags: TpuFlags(" in caplog.text
    assert "global_step=3" in caplog.text
    with pytest.raises(ValueError, match="there is no task: name one, such as --task ranking:Ranking"):
        main(["tpu_runner", "--cpu_test"])
    with pytest.raises(ValueError, match="there is no flag --tsk; did you mean --task"):
        main(["tpu_runner", "--tsk", TASK])
    named_model(TASK)  # its module is imported: the short name will do
    with pytest.raises(TypeError, match="train_and_eval"):
        main(["tpu_runner", "--task=SmallTaskParams", "--mode=train_and_eval"])


def test_it_is_a_program(tmp_path):
    command = [sys.executable, "-m", "monolith.tpu_runner"]
    done = subprocess.run(
        [*command, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert "--overwrite-end-date" in done.stdout
