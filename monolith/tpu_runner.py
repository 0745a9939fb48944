"""TPURunner: trains a registered task on a TPU, or evaluates its checkpoints; `--cpu-test` does it on the processor.

`python -m monolith.tpu_runner --task ranking:Ranking --mode train --model-dir model` on the machine that has the TPU.
"""

import logging
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from monolith.checkpoint import latest_state
from monolith.checkpoint.format.layout import complete_snapshots, state_order
from monolith.checkpoint.format.manifest import read_manifest
from monolith.model.hyper_params import InstantiableParams, Params, named_model
from monolith.model.native_task import NativeTask
from monolith.train.config import RunnerConfig
from monolith.train.config.command_line import command_line, flag_name, merge_command_line, parse_flags
from monolith.train.config.setting import setting, setting_help
from monolith.train.device.device_estimator import DeviceEstimator
from monolith.train.device.xla import xla_device
from monolith.train.estimator import Estimator
from monolith.train.made_model import ModelLike

CPU_TEST_BATCH_SIZE: Final = 16
"""Most events of a batch in the test on the processor."""

POLL_SECONDS: Final = 1.0
"""How often evaluation looks for the next checkpoint."""

_LOCATION: Final = "torch_xla uses the TPU of this machine; start the command there"
_UNREAD: Final[Mapping[str, str]] = {
    "tpu": _LOCATION,
    "gcp_project": _LOCATION,
    "tpu_zone": _LOCATION,
    "tf_version": "there is no TensorFlow on the TPU",
    "partition_strategy": "rows are in tables of this machine, found by the hash of their id",
    "pipeline_execution": "the rows of a step are always those after the step before",
}
"""Flags that mean nothing here, with the reason."""

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class TpuFlags:
    """The flags of a runner; a value that code leaves at its default comes from the command line."""

    task: str | None = setting(None, "The task: module:Class, or the name of a registered one.")
    mode: str = setting("train", "train, or eval for all checkpoints one after another.")
    model_dir: str = setting("", "Folder of the checkpoints.")
    save_checkpoints_steps: int | None = setting(None, "Steps between checkpoints, unless the task says it.")
    iterations_per_loop: int = setting(100, "Steps between two lines of the log.")
    host_call_every_n_steps: int = setting(100, "Steps between two summaries; 0 writes none.")
    overwrite_end_date: str | None = setting(None, "Day after the last one to read, instead of the task's.")
    cpu_test: bool = setting(False, "Train on the processor, in small batches.")
    eval_timeout_secs: float = setting(3600.0, "How long evaluation waits for the next checkpoint; 0 does not wait.")
    enable_stopping_signals: bool = setting(False, "Accepted; a run always ends with its data.")
    tpu: str | None = setting(None, "Accepted; the TPU is that of this machine.")
    gcp_project: str | None = setting(None, "Accepted; the TPU is that of this machine.")
    tpu_zone: str | None = setting(None, "Accepted; the TPU is that of this machine.")
    tf_version: str | None = setting(None, "Accepted; there is no TensorFlow.")
    partition_strategy: str = setting("div", "Accepted; ids are found by their hash.")
    pipeline_execution: bool = setting(False, "Accepted; rows are always those after the step before.")

    def __post_init__(self) -> None:
        """Apply the command line, then warn about what has no effect."""
        merge_command_line(self)
        for name, default in ((one.name, one.default) for one in fields(self)):
            if name in _UNREAD and getattr(self, name) != default:
                warnings.warn(f"{flag_name(name)} has no effect: {_UNREAD[name]}", stacklevel=3)


class TPURunner:
    """Trains or evaluates one task as its flags say.

    The dense part computes on the XLA device of this process, and its rows stay in this machine's memory. With
    `cpu_test` everything is on the processor. Evaluation always is.
    """

    def __init__(self, task_param: ModelLike, flags: TpuFlags | None = None) -> None:
        """Take a task's parameters, which win over `save_checkpoints_steps`, and flags, by default the command line's.

        `overwrite_end_date` wins over the task's `train.end_date`.
        """
        self.flags = flags or TpuFlags()
        self.task_param = _parameters(task_param)
        self._set("", "accelerator", "tpu")
        own = self._parameter("train", "save_checkpoints_steps")
        self.save_checkpoints_steps = self.flags.save_checkpoints_steps if own is None else own
        self._end_date = None
        if self.flags.overwrite_end_date and not self._set("train", "end_date", self.flags.overwrite_end_date):
            self._end_date = self.flags.overwrite_end_date

    def run(self) -> Any:
        """Train and return how it ended, or evaluate and return the metrics by step."""
        if self.flags.mode == "train_and_eval":
            raise TypeError(
                "--mode train_and_eval is not supported: train in one process with --mode train, and evaluate the "
                "checkpoints in another with --mode eval"
            )
        if self.flags.mode not in ("train", "eval"):
            raise ValueError(f"--mode must be train or eval, got {self.flags.mode!r}")
        _log.info("model_dir %s is at step %d", self.flags.model_dir, self.global_step())
        if self.flags.mode == "eval":
            return dict(self.evaluate(self.create_tpu_estimator_on_cpu()))
        if self.flags.cpu_test:
            return self.create_tpu_estimator_on_cpu().train()
        estimator, _ = self.create_tpu_estimator()
        return estimator.train()

    def create_tpu_estimator(self) -> tuple[Estimator, int]:
        """Return an estimator that trains on the XLA device of this process, and the number of replicas: one."""
        return DeviceEstimator(self.task_param, self._config(), device=xla_device()), 1

    def create_tpu_estimator_on_cpu(self) -> Estimator:
        """Return an estimator on the processor; with `cpu_test` its batches are small."""
        if self.flags.cpu_test:
            for group in ("train", "eval"):
                asked = self._parameter(group, "per_replica_batch_size") or CPU_TEST_BATCH_SIZE
                self._set(group, "per_replica_batch_size", min(asked, CPU_TEST_BATCH_SIZE))
        return Estimator(self.task_param, self._config())

    def evaluate(self, estimator: Estimator) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield the step and the metrics of every checkpoint, those to come too, and write them as summaries.

        It ends with the checkpoint of the task's `train.max_steps`, or when no other came for `eval_timeout_secs`.
        """
        # One event file for all checkpoints: TensorBoard reads files by name, and names made in one second do not sort.
        with self._event_file() as writer:
            for step, found in self._metrics_of_all(estimator):
                words = ", ".join(f"{name} {value:.6g}" for name, value in sorted(found.items()))
                _log.info("step %d: %s", step, words)
                if writer is not None:
                    for name, value in found.items():
                        writer.add_scalar(name, value, step)
                    writer.flush()
                yield step, found

    def global_step(self) -> int:
        """Return the step of the newest checkpoint, 0 without one."""
        path = latest_state(self.flags.model_dir) if self.flags.model_dir else None
        return 0 if path is None else int(read_manifest(path).step)

    def _metrics_of_all(self, estimator: Estimator) -> Iterator[tuple[int, dict[str, float]]]:
        max_steps = self._parameter("train", "max_steps")
        done, deadline = -1, self._deadline()
        while max_steps is None or done < max_steps:
            path = next((one for one in complete_snapshots(self.flags.model_dir) if _step_of(one) > done), None)
            if path is not None:
                done, deadline = _step_of(path), self._deadline()
                if (found := self._metrics_of(estimator, path)) is not None:
                    yield done, found
            elif (left := deadline - time.monotonic()) > 0:
                time.sleep(min(POLL_SECONDS, left))
            else:
                return

    def _metrics_of(self, estimator: Estimator, path: Path) -> dict[str, float] | None:
        """Return the metrics of a checkpoint; None if the training process has removed it meanwhile."""
        try:
            return estimator.evaluate(self._num_eval_batches(), checkpoint_path=str(path))
        except OSError:
            if path.exists():
                raise
            return None

    def _num_eval_batches(self) -> int | None:
        """Return how many batches to look at: the task's `eval.steps`, or its `input.eval_examples` in batches."""
        steps: int | None = self._parameter("eval", "steps")
        examples, size = self._parameter("input", "eval_examples"), self._parameter("eval", "per_replica_batch_size")
        if steps is None and examples and size:
            return max(int(examples) // int(size), 1)
        return steps

    def _event_file(self) -> AbstractContextManager[Any]:
        """Return a writer of summaries; None as what it yields if none are to be written."""
        if self.flags.host_call_every_n_steps == 0 or find_spec("tensorboard") is None:
            return nullcontext()
        files = import_module("monolith.observe.summary.event_files")
        return cast("AbstractContextManager[Any]", files.SummaryWriter(Path(self.flags.model_dir) / "eval"))

    def _deadline(self) -> float:
        return time.monotonic() + self.flags.eval_timeout_secs

    def _config(self) -> RunnerConfig:
        return RunnerConfig(
            is_local=True,
            model_dir=self.flags.model_dir,
            save_checkpoints_steps=self.save_checkpoints_steps,
            log_step_count_steps=self.flags.iterations_per_loop,
            save_summary_steps=self.flags.host_call_every_n_steps,
            end_date=self._end_date,
        )

    def _parameter(self, group: str, name: str) -> Any:
        return getattr(getattr(self.task_param, group, None), name, None)

    def _set(self, group: str, name: str, value: Any) -> bool:
        """Set a parameter of the task if it has one of this name; return whether it has."""
        holder = getattr(self.task_param, group, None) if group else self.task_param
        if not isinstance(holder, Params) or name not in holder:
            return False
        holder.set(**{name: value})
        return True


def main(argv: Sequence[str] | None = None) -> None:
    """Run the task that `--task` names, with the flags of `argv` behind its first word, the program."""
    arguments = (sys.argv if argv is None else argv)[1:]
    if "--help" in arguments:
        sys.stdout.write(_help())
        return
    with command_line(parse_flags(arguments, TpuFlags)):
        flags = TpuFlags()
    if flags.task is None:
        raise ValueError("there is no task: name one, such as --task ranking:Ranking")
    runner = TPURunner(named_model(flags.task), flags)
    _log.info("flags: %s", flags)
    _log.info("task: %s", runner.task_param)
    ended = runner.run()
    _log.info("done: %s", ended)


def _parameters(task: ModelLike) -> ModelLike:
    """Return the task's parameters as a copy; a model without parameters is returned itself."""
    if isinstance(task, type) and issubclass(task, NativeTask):
        return task.params()
    return task.copy() if isinstance(task, InstantiableParams) else task


def _step_of(path: Path) -> int:
    return state_order(path)[0]


def _help() -> str:
    flags = {flag_name(name): words for name, words in setting_help(TpuFlags).items()}
    width = max(map(len, flags))
    return "python -m monolith.tpu_runner [FLAGS]\n" + "".join(
        f"  {name:<{width}}  {words}\n" for name, words in flags.items()
    )


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
