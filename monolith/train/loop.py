"""The training loop of one process: a step is a visible sequence, and hooks only watch."""

import logging
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from monolith.data import Batch
from monolith.data.progress import share_read
from monolith.errors import NotFiniteError
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model import Mode, Pulled, run_dense
from monolith.model.spec import EstimatorSpec
from monolith.observe.stack_traces import stack_traces_on_signal
from monolith.observe.summary.plugin_tensor import PluginTensor, collected_summaries
from monolith.train.culprit import AS_BEFORE, blame, place_of_batch, push_failure
from monolith.train.saving.no_saver import NoSaver
from monolith.train.saving.run_saver import RunSaver
from monolith.train.saving.save_listener import SaveListener
from monolith.train.saving.saving_config import SavingConfig
from monolith.train.state import TrainState
from monolith.train.state.clock import Reading
from monolith.train.stop_signals import StopSignals
from monolith.train.turns import Turns

Sync = Callable[[TrainState], None]
"""Called after every step; decides itself when to send changes to servers."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """How a run ended."""

    global_step: int
    """Steps taken in all runs together."""

    num_steps: int
    """Steps taken in this run."""

    ending: str
    """How it ended, in words, such as "the data ended" or "interrupted at step 12, saved; run again to continue"."""

    loss: float
    """Of the last batch; NaN if there was none."""

    metrics: Mapping[str, float]
    """Of the last predictions, each made before its event was trained on."""

    scale_to: tuple[int, int] | None = None
    """`num_ps` and `num_workers` that the job is to go on with, if `monolith scale` ended it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopConfig:
    """How steps are computed and measured."""

    metric_window: int = 100_000
    """Predictions over which AUC and log loss are computed."""

    compile: bool = False
    """Compile the dense part with torch.compile."""

    autocast: bool = False
    """Compute the dense part in bfloat16 where that is safe."""

    deterministic: bool = False
    """Use only operations that give the same bits every time."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.metric_window < 1:
            raise ValueError(f"metric_window must be at least 1, got {self.metric_window}")


class Trainer:
    """Trains a state on its source until the data ends, `max_steps` is reached, or a stop is requested."""

    def __init__(
        self,
        state: TrainState,
        config: LoopConfig,
        saving: SavingConfig,
        *,
        hooks: Sequence[Hook] = (),
        syncs: Sequence[Sync] = (),
        listeners: Sequence[SaveListener] = (),
        guards: Sequence[SaveListener] = (),
        saves: bool = True,
    ) -> None:
        """Take what `TrainState.open` made ready.

        `listeners` run before each save and after each successful one, `guards` after every one. Without `saves`,
        somebody else saves the state.
        """
        self.state = state
        self.config = config
        self.hooks = list(hooks)
        self.syncs = list(syncs)
        self.metrics = state.measure(config.metric_window)
        self.context = RunContext(
            model=state.model,
            tables=state.tables,
            global_step=state.global_step,
            read_metrics=self.metrics.read,
            pause=state.pause,
        )
        self.context.saved_step = state.saved_step
        self.context.times_rejected = state.clock.num_rejected
        self.saver: RunSaver | NoSaver = NoSaver()
        if saves:
            self.saver = RunSaver(state, saving, self.context, listeners=listeners, guards=guards)
        self._turns = Turns()
        self.context.save, self.context.turn = self._save, self._turns.own
        self.context.forget = self._forget
        self.context.save_dense = self.saver.save_dense
        self._between_steps = False  # the source or hooks run: the state is whole, and no save has failed
        self._warned = False
        self._summaries: list[PluginTensor] = []  # of the last step
        self._folder = saving.folder
        self._run_dense = torch.compile(run_dense) if config.compile else run_dense

    def run(self, max_steps: int | None = None) -> RunResult:
        """Train; save a snapshot at the start, in between, and at the end.

        An error of a hook or of the source ends the run, after a snapshot of everything that was trained. After an
        error inside a step there is no new snapshot; a note on the error names the newest one.
        """
        state, loss = self.state, float("nan")
        first_step = state.global_step
        self.context.read_share = lambda: self._share(first_step, max_steps)
        state.model.train()
        state.model.zero_grad()  # a run that failed inside a step may have left gradients, which would be added
        self.saver.begin()
        signals = StopSignals(self.context.request_stop)
        self.context.fail, self.context.check = signals.fail, signals.check
        with (
            self._saves(),
            self._hooks(),
            signals,
            stack_traces_on_signal(),
            _determinism(self.config.deterministic),
        ):
            self._between_steps = True
            for batch in signals.until_stopped(self._batches(max_steps)):
                for hook in self.hooks:
                    hook.before_run(self.context)
                with self._turns.own():
                    if not state.begin_step():
                        break
                    self._between_steps = False
                    loss, spec = self._step(batch)
                    for sync in self.syncs:
                        sync(state)
                    self.saver.after_step()
                    self._between_steps = True
                    self.context.num_steps += 1
                    self._tell_hooks(batch, loss, spec)
                    if self.context.save_requested:
                        self.saver.save()
            state.drain()
            interrupted = signals.received is not None
            ending = self._ending(max_steps, interrupted=interrupted)
            state.wait_for_others(ending, interrupted=interrupted, tick=self._save_while_waiting)
            state.pause.end_part()
            self.context.ending = state.ending or ending
            self._between_steps = False
            with self._turns.own():
                self._turns.end()
                self.saver.end()
        return RunResult(
            global_step=state.global_step,
            num_steps=self.context.num_steps,
            ending=self.context.ending,
            loss=loss,
            metrics=self.metrics.read(),
        )

    def _save_while_waiting(self) -> None:
        with self._turns.own():
            self.context.global_step = self.state.global_step
            self.saver.after_step()

    def _save(self) -> None:
        with self._turns.own():
            self.saver.save()

    def _forget(self, ids: Mapping[str, Collection[int]]) -> dict[str, dict[str, list[int]]]:
        """Remove ids between two steps, for another thread; what is saved later does not know them."""
        with self._turns.guest():
            # First: a save that is under way may have them.
            self.saver.begin_anew()
            return self.state.forget(ids)

    def _share(self, first_step: int, max_steps: int | None) -> float | None:
        """Return how much of the run is done: by its steps or by its data, whichever ends first."""
        found = [share_read(self.state.source)]
        if max_steps is not None and max_steps > first_step:
            found.append((self.state.global_step - first_step) / (max_steps - first_step))
        return max((share for share in found if share is not None), default=None)

    def _ending(self, max_steps: int | None, *, interrupted: bool) -> str:
        """Return how the run ended, in words."""
        step = self.state.global_step
        if interrupted:
            return f"interrupted at step {step}, saved; run again to continue"
        if max_steps is not None and step >= max_steps:
            reason, way_out = f"max_steps ({max_steps}) was reached", "raise it, or train in another model_dir"
        elif self.context.stop_requested:
            reason, way_out = "a hook asked for a stop", "look at the hooks of the run"
        elif step:
            reason, way_out = "the data ended", "the model has read all of it: add data, or train in another model_dir"
        else:
            reason, way_out = "the data ended", "input_fn returned a source without events"
        return reason if self.context.num_steps else f"no step was taken: {reason} before ({way_out})"

    def _step(self, batch: Batch) -> tuple[float, EstimatorSpec]:
        """Train on one batch; after an error rows and weights have their old values.

        There is one exception: if a step would make a row NaN or infinite, that row and the weights keep their values,
        but the other rows change. The run then ends, and has to continue from a snapshot.
        """
        state, columns = self.state, self.state.columns_of(batch)
        pulled = state.pull(batch)
        with (
            torch.autocast("cpu", torch.bfloat16, enabled=self.config.autocast),
            collected_summaries() as self._summaries,
        ):
            spec = self._run_dense(state.model, pulled.slices, columns, Mode.TRAIN)
        # All checks come before the first change: an error up to here leaves rows and weights alone.
        loss = self._checked_loss(spec, batch, pulled)
        state.model.backward(loss)
        self._check_gradients(batch, pulled)
        # Reading the clock does not move it: rows need the batch's time, but their update can still fail.
        reading = state.clock.read(batch, is_new_partition=batch.partition not in state.offsets)
        # Rows before weights: an update of rows can fail, and the weights must then have their old values.
        self._push(pulled, batch, reading)
        state.step_dense(batch)
        state.model.zero_grad()
        self.metrics.add(spec)  # its predictions were made before the update, so the metrics are of unseen events
        # Eviction comes after the update: the rows of this batch have their new time and stay.
        state.clock.advance(reading)
        state.evict_if_due()
        # The position comes last: a batch counts as trained only when all of the above is done.
        state.count(batch)
        self.context.global_step = state.global_step
        self.context.times_rejected = state.clock.num_rejected
        return float(loss.detach()), spec

    def _batches(self, max_steps: int | None) -> Iterator[Batch]:
        if self._is_over(max_steps):
            return
        for batch in self.state.batches():
            expected = self.state.offsets.get(batch.partition, batch.first)
            if batch.first < expected:
                raise RuntimeError(f"the source gave {batch.name} where {expected} is next: it would repeat events")
            yield batch
            if self._is_over(max_steps):
                return

    def _is_over(self, max_steps: int | None) -> bool:
        return self.context.stop_requested or (max_steps is not None and self.state.has_reached(max_steps))

    def _checked_loss(self, spec: EstimatorSpec, batch: Batch, pulled: Pulled) -> Tensor:
        state, loss = self.state, spec.loss
        if loss is None or loss.dim() != 0:
            got = "none" if loss is None else f"shape {tuple(loss.shape)}"
            raise ValueError(f"{type(state.model).__name__}: model_fn must return a scalar loss in TRAIN, got {got}")
        if not bool(torch.isfinite(loss.detach())):
            raise NotFiniteError(f"the loss is {float(loss.detach())} {self._where(batch)}. {blame(batch, pulled)}")
        if spec.optimizer is not state.optimizer and not self._warned:
            self._warned = True
            warnings.warn(
                f"{type(state.model).__name__}: model_fn builds an optimizer in every call; the first one is kept, a "
                "new one would forget its state. Make it in __init__",
                stacklevel=2,
            )
        return loss

    def _check_gradients(self, batch: Batch, pulled: Pulled) -> None:
        found = {name: one.grad for name, one in self.state.model.named_parameters() if one.grad is not None}
        # A sum is finite only if all of it is, and adding up is one pass; only then is it looked at more closely.
        if not found or bool(torch.isfinite(torch.stack([one.sum() for one in found.values()]).sum())):
            return
        for name, gradient in found.items():
            if not bool(torch.isfinite(gradient).all()):
                self.state.model.zero_grad()
                raise NotFiniteError(
                    f"the gradient of {name} is not finite {self._where(batch)}. {blame(batch, pulled)}"
                )

    def _push(self, pulled: Pulled, batch: Batch, reading: Reading) -> None:
        try:
            self.state.push(pulled, batch, reading)
        except ValueError as error:
            self.state.model.zero_grad()
            failure = push_failure(error, pulled, self._place(batch))
            if failure is error:
                raise
            raise failure from error

    def _where(self, batch: Batch) -> str:
        return f"{self._place(batch)}; {AS_BEFORE}"

    def _place(self, batch: Batch) -> str:
        return place_of_batch(batch, self.state.global_step)

    @contextmanager
    def _saves(self) -> Iterator[None]:
        """End every save under way; if one fails after another error, that error gets a note."""
        try:
            yield
        except BaseException as error:
            if (failure := self.saver.close()) is not None and failure is not error:
                error.add_note(f"a snapshot could not be written either: {failure!r}")
            raise
        if (failure := self.saver.close()) is not None:
            raise failure

    def _tell_hooks(self, batch: Batch, loss: float, spec: EstimatorSpec) -> None:
        values = StepValues(
            step=self.state.global_step - 1,
            loss=loss,
            num_events=len(batch),
            partition=batch.partition,
            first=batch.first,
            last=batch.last,
            spec=spec,
            summaries=self._summaries,
            batch=batch,
        )
        for hook in self.hooks:
            hook.after_run(self.context, values)

    @contextmanager
    def _hooks(self) -> Iterator[None]:
        """Call `after_create_session` of all hooks at the start and `end` at the end, also after an error."""
        started: list[Hook] = []
        try:
            for hook in self.hooks:
                started.append(hook)
                hook.after_create_session(self.context)
            yield
        except BaseException as error:
            self.context.error = error
            self._save_what_was_trained(error)
            raise
        finally:
            _end_all(started, self.context)

    def _save_what_was_trained(self, error: BaseException) -> None:
        """Write a snapshot if the source or a hook failed: no step is half done then. Note where to continue."""
        state = self.state
        if self._between_steps and isinstance(error, Exception) and state.can_be_saved_after(error):
            try:
                self.saver.save()
            except Exception:  # noqa: BLE001  the first error is the one to tell
                _log.exception("there is no snapshot of step %d", state.global_step)
        self.saver.settle()
        error.add_note(
            f"training stopped at step {state.global_step}; {self._folder} has a snapshot of step "
            f"{state.saved_step}: run again to go on from there"
        )


def _end_all(hooks: Sequence[Hook], context: RunContext) -> None:
    """Call `end` of all hooks, even if one of them fails: others have files and threads to close."""
    errors: list[Exception] = []
    for hook in hooks:
        try:
            hook.end(context)
        except Exception as error:  # noqa: BLE001  raised below
            errors.append(error)
    if not errors:
        return
    for other in errors[1:] if context.error is None else errors:
        _log.error("a hook failed at the end of the run", exc_info=other)
    if context.error is None:
        raise errors[0]


@contextmanager
def _determinism(wanted: bool) -> Iterator[None]:
    """Inside the block, refuse operations whose result may differ from run to run."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(wanted or before)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
