"""Saving while training goes on: the files are those of one moment, and errors come through."""

import threading
import traceback

import pytest
import torch

from monolith.checkpoint import PendingSave, load_snapshot
from monolith.embedding.admission import SlotOccurrenceThresholdConfig, create_hash_filter
from monolith.model import make_tables
from tests.checkpoint.small_state import PLAN, State, content_of, rows_of
from tests.patience import PATIENCE_SECONDS


def test_a_snapshot_written_after_more_training_is_that_of_its_moment(tmp_path):
    state, paused = State(), State()
    state.train(6)
    paused.train(6)
    frozen = state.freeze()
    state.train(9)
    assert content_of(frozen.write_snapshot(tmp_path / "a")) == content_of(
        paused.freeze().write_snapshot(tmp_path / "b")
    )


def test_a_snapshot_written_during_training_is_that_of_its_moment(tmp_path):
    state, paused = State(), State()
    state.train(3)
    paused.train(3)
    for turn in range(5):
        frozen = state.freeze()
        pending = PendingSave(lambda frozen=frozen, turn=turn: frozen.write_snapshot(tmp_path / f"a{turn}"))
        state.train(4)
        want = paused.freeze().write_snapshot(tmp_path / f"b{turn}")
        paused.train(4)
        assert content_of(pending.wait()) == content_of(want)


def test_the_training_itself_is_not_changed_by_being_frozen(tmp_path):
    state, other = State(), State()
    state.train(5)
    other.train(5)
    frozen = state.freeze()
    state.train(5)
    frozen.write_snapshot(tmp_path)
    state.train(5)
    other.train(10)
    assert rows_of(state.tables) == rows_of(other.tables)


def test_what_was_frozen_in_vain_can_be_frozen_again(tmp_path):
    state = State()
    state.train(3)
    frozen = state.freeze()
    with pytest.raises(Exception, match="already"):
        state.freeze()
    frozen.close()
    path = state.freeze().write_snapshot(tmp_path)
    restored = make_tables(PLAN)
    load_snapshot(path, plan=PLAN, tables=restored)
    assert rows_of(restored) == rows_of(state.tables)


def test_a_write_that_fails_lets_go_of_the_tables(tmp_path):
    state = State()
    state.train(3)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        state.freeze().write_snapshot(tmp_path / "file")
    state.freeze().write_snapshot(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_a_frozen_filter_is_what_it_was_however_much_is_counted_meanwhile(tmp_path, seed):
    """Enough ids that the ring turns, and splits that the freeze still needs are emptied."""
    draw = torch.Generator().manual_seed(seed)
    thresholds = SlotOccurrenceThresholdConfig(default_occurrence_threshold=3)
    admission = create_hash_filter(20_000, 7, thresholds)
    for before, after in ((15_000, 1), (25_000, 40_000), (3, 70_000), (40_000, 3_000)):
        admission.should_be_filtered(torch.randint(0, 1 << 60, (before,), generator=draw))
        admission.save(tmp_path / f"{after}.then")
        admission.freeze()
        admission.should_be_filtered(torch.randint(0, 1 << 60, (after,), generator=draw))
        admission.save_frozen(tmp_path / f"{after}.frozen")
        admission.save(tmp_path / f"{after}.now")
        files = content_of(tmp_path)
        for split in range(7):
            suffix = f"-{split:05d}-of-00007"
            assert files[f"{after}.frozen{suffix}"] == files[f"{after}.then{suffix}"]
        assert any(files[f"{after}.now-{n:05d}-of-00007"] != files[f"{after}.then-{n:05d}-of-00007"] for n in range(7))


def test_a_pending_save_is_done_when_it_is_written(tmp_path):
    go = threading.Event()

    def write():
        assert go.wait(PATIENCE_SECONDS)
        return tmp_path

    pending = PendingSave(write)
    assert not pending.done
    pending.check()
    go.set()
    assert pending.wait() == tmp_path
    assert pending.done and pending.error is None


def test_an_error_of_the_thread_is_raised_with_its_trace():
    def write_that_fails():
        raise OSError("the disk is full")

    pending = PendingSave(write_that_fails)
    with pytest.raises(OSError, match="the disk is full") as caught:
        pending.wait()
    assert "write_that_fails" in "".join(traceback.format_tb(caught.value.__traceback__))
    with pytest.raises(OSError, match="the disk is full"):
        pending.check()
