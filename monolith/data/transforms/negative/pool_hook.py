"""ItemPoolSaveRestoreHook: an item pool in files beside the snapshots of a run."""

from typing import Literal

from monolith.data.transforms.negative.item_pool import ItemPool
from monolith.data.transforms.negative.pool_files import restore_item_pool, save_item_pool, saved_steps
from monolith.hooks import Hook, RunContext, StepValues


class ItemPoolSaveRestoreHook(Hook):
    """Restores a pool when a run starts, and saves it every `save_steps` steps and when the run ends.

    The position of a source with `NegativeGen` holds its pool already, and more exactly: as it was after the batch. The
    files are for what reads no such position: another source, an evaluation beside the training, the original system.
    With a prefetching source the pool that is saved is that of the batches read ahead.

    Of the pools in the folder that one is restored which is newest and not newer than the step the run starts at; if
    there is none, the pool stays as it is. A run that ends by an error saves nothing.

    Args:
        model_dir: Folder of the files, a path or an fsspec URL.
        save_steps: Steps from one save to the next.
        mode: "train"; in "eval" and "infer" the pool is restored and never saved.
        pool: The pool, as it was given to `negative_gen`.
        nshards: Files of a pool.
        worker_index: This worker.
        num_workers: All workers, each of which has a pool.
    """

    def __init__(
        self,
        model_dir: str,
        save_steps: int,
        mode: Literal["train", "eval", "infer"] = "train",
        *,
        pool: ItemPool,
        nshards: int = 1,
        worker_index: int = 0,
        num_workers: int = 1,
    ) -> None:
        if save_steps <= 0:
            raise ValueError(f"save_steps must be positive, got {save_steps}")
        if mode not in ("train", "eval", "infer"):
            raise ValueError(f"mode must be 'train', 'eval' or 'infer', got {mode!r}")
        self._model_dir, self._save_steps, self._mode = model_dir, save_steps, mode
        self._pool, self._nshards = pool, nshards
        self._worker_index, self._num_workers = worker_index, num_workers
        self._saved_step: int | None = None

    def after_create_session(self, context: RunContext) -> None:
        """Restore."""
        steps = [step for step in saved_steps(self._model_dir) if step <= context.global_step]
        if steps:
            restore_item_pool(self._pool, max(steps), self._model_dir, worker_index=self._worker_index)
            self._saved_step = max(steps)

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Save, if it is time."""
        if context.global_step % self._save_steps == 0:
            self._save(context.global_step)

    def end(self, context: RunContext) -> None:
        """Save what came since the last time."""
        if context.error is None:
            self._save(context.global_step)

    def _save(self, step: int) -> None:
        if self._mode != "train" or step == self._saved_step:
            return
        save_item_pool(
            self._pool,
            step,
            self._model_dir,
            self._nshards,
            worker_index=self._worker_index,
            num_workers=self._num_workers,
        )
        self._saved_step = step
