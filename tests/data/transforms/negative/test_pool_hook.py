"""The hook that keeps an item pool beside a run's snapshots."""

import threading

import numpy as np
import pytest
from torch import nn

from monolith.data import arrays
from monolith.data.transforms.negative import (
    ItemPool,
    ItemPoolSaveRestoreHook,
    NegativeGenConfig,
    item_pool_check,
    item_pool_random_fill,
    save_item_pool,
)
from monolith.hooks import RunContext, StepValues


def context(step: int = 0) -> RunContext:
    return RunContext(model=nn.Identity(), tables=None, global_step=step)


def run(hook: ItemPoolSaveRestoreHook, pool: ItemPool, first: int, last: int, error: Exception | None = None) -> None:
    """Steps that put an item each into the pool, with the hook called as a run calls it."""
    of_run = context(first)
    hook.begin()
    hook.after_create_session(of_run)
    for step in range(first, last):
        hook.before_run(of_run)
        pool.channel(3).push(np.array([step + 1]), {})
        of_run.global_step = step + 1
        hook.after_run(of_run, StepValues(step=step, loss=0.0, num_events=1, partition="0", first=step, last=step + 1))
    of_run.error = error
    hook.end(of_run)


def steps_of(folder) -> list[int]:
    return sorted(int(path.name.split("-")[1].split("_")[0]) for path in folder.glob("*_item_pool_0_0_1"))


def test_it_saves_every_so_many_steps_and_at_the_end_and_restores_at_the_start(tmp_path):
    pool = ItemPool(0, 100)
    run(ItemPoolSaveRestoreHook(str(tmp_path), 3, pool=pool), pool, 0, 7)
    assert steps_of(tmp_path) == [3, 6, 7]
    assert item_pool_check(pool, 7, str(tmp_path))
    again = ItemPool(0, 100)
    run(ItemPoolSaveRestoreHook(str(tmp_path), 3, pool=again), again, 7, 8)
    assert again.channel(3).gids.tolist() == list(range(1, 9))
    assert steps_of(tmp_path) == [3, 6, 7, 8]


def test_a_run_that_starts_at_an_earlier_step_gets_the_pool_of_that_time(tmp_path):
    pool = ItemPool(0, 100)
    run(ItemPoolSaveRestoreHook(str(tmp_path), 3, pool=pool), pool, 0, 7)
    for start, items in [(6, 6), (5, 3), (2, 0)]:
        again = ItemPool(0, 100)
        ItemPoolSaveRestoreHook(str(tmp_path), 3, pool=again).after_create_session(context(start))
        assert len(again) == items


def test_a_step_is_not_saved_twice_and_an_end_by_an_error_not_at_all(tmp_path):
    pool = ItemPool(0, 100)
    run(ItemPoolSaveRestoreHook(str(tmp_path), 3, pool=pool), pool, 0, 4, error=RuntimeError("out of luck"))
    assert steps_of(tmp_path) == [3]
    written = (tmp_path / "model.ckpt-3_item_pool_0_0_1").stat().st_mtime_ns
    again = ItemPool(0, 100)
    run(ItemPoolSaveRestoreHook(str(tmp_path), 3, pool=again), again, 3, 3)
    assert (tmp_path / "model.ckpt-3_item_pool_0_0_1").stat().st_mtime_ns == written


@pytest.mark.parametrize("mode", ["eval", "infer"])
def test_other_modes_restore_and_never_save(tmp_path, mode):
    saved = ItemPool(0, 100)
    item_pool_random_fill(saved, 20)
    save_item_pool(saved, 5, str(tmp_path))
    pool = ItemPool(0, 100)
    hook = ItemPoolSaveRestoreHook(str(tmp_path), 1, mode, pool=pool)
    hook.after_create_session(context(5))
    assert item_pool_check(pool, 5, str(tmp_path))
    of_run = context(6)
    hook.after_run(of_run, StepValues(step=5, loss=0.0, num_events=1, partition="0", first=0, last=1))
    hook.end(of_run)
    assert steps_of(tmp_path) == [5]


def test_shards_and_workers(tmp_path):
    for worker in range(2):
        pool = ItemPool(0, 100)
        pool.channel(worker + 1).push(np.array([worker]), {})
        hook = ItemPoolSaveRestoreHook(str(tmp_path), 10, pool=pool, nshards=2, worker_index=worker, num_workers=2)
        hook.end(context(4))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"model.ckpt-4_item_pool_{worker}_{shard}_2" for worker in range(2) for shard in range(2)}
    third = ItemPool(0, 100)
    ItemPoolSaveRestoreHook(str(tmp_path), 10, pool=third, worker_index=2, num_workers=3).after_create_session(
        context(4)
    )
    assert list(third.channels) == [1]  # worker 2 of 3 takes over from worker 0 of 2


def test_a_pool_is_saved_whole_while_batches_are_read_ahead(tmp_path):
    pool = ItemPool(0, 1000)
    size, num_batches = 50, 40
    columns = {
        "item_id": np.arange(1, size * num_batches + 1),
        "title": np.arange(1, size * num_batches + 1),
        "label": np.ones(size * num_batches, np.float32),
    }
    config = NegativeGenConfig(neg_num=1, start_num=0, item_features=("title",))
    source = arrays(columns, batch_size=size).negative_gen(config, pool)
    hook = ItemPoolSaveRestoreHook(str(tmp_path), 1, pool=pool)
    reading = threading.Thread(target=lambda: list(source))
    reading.start()
    step = 0
    while reading.is_alive() or step == 0:
        step += 1
        hook.after_run(context(step), StepValues(step=step, loss=0.0, num_events=1, partition="0", first=0, last=1))
    reading.join()
    for saved in range(1, step + 1):
        again = ItemPool(0, 1000)
        ItemPoolSaveRestoreHook(str(tmp_path), 1, "eval", pool=again).after_create_session(context(saved))
        assert len(again) % size == 0  # after a batch, never within one


def test_settings_without_sense_are_refused(tmp_path):
    with pytest.raises(ValueError, match="save_steps must be positive, got 0"):
        ItemPoolSaveRestoreHook(str(tmp_path), 0, pool=ItemPool())
    with pytest.raises(ValueError, match="mode must be 'train', 'eval' or 'infer', got 'predict'"):
        ItemPoolSaveRestoreHook(str(tmp_path), 1, "predict", pool=ItemPool())
