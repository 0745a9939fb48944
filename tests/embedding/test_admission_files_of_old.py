"""Filter files of older formats: their counts mean other ids, so they are dropped with a warning."""

import warnings
from pathlib import Path

import pytest
import torch

from monolith.embedding.admission import AdmissionFilter, SlotOccurrenceThresholdConfig, create_hash_filter
from tests.embedding.test_admission import files, with_header

IDS = torch.arange(100)


def make(shard: tuple[int, int] = (0, 1)) -> AdmissionFilter:
    return create_hash_filter(5000, 7, SlotOccurrenceThresholdConfig(default_occurrence_threshold=1), shard=shard)


def save_old(folder: Path, version: int) -> AdmissionFilter:
    """Save a filter that has seen the ids, as an older version did; returns it."""
    folder.mkdir()
    admission = make()
    admission.should_be_filtered(IDS)
    admission.save(folder / "f")
    for path in files(folder):
        with_header(path, version=version)
    return admission


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_counts_are_dropped_with_a_warning(tmp_path: Path, version: int) -> None:
    save_old(tmp_path / "old", version)
    for shard in ((0, 1), (0, 2)):
        restored = make(shard)
        restored.should_be_filtered(torch.arange(1000, 1100))
        with pytest.warns(UserWarning, match=rf"old/f have format version {version}; .* dropped"):
            restored.restore(tmp_path / "old" / "f")
        assert restored.native_filter.equals(make(shard).native_filter)
    assert restored.should_be_filtered(IDS).all(), "an id that the old file had seen was let in"


def test_files_of_today_give_no_warning(tmp_path: Path) -> None:
    admission = make()
    admission.should_be_filtered(IDS)
    admission.save(tmp_path / "f")
    restored = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        restored.restore(tmp_path / "f")
    assert restored.native_filter.equals(admission.native_filter)


@pytest.mark.parametrize("version", [2, 3])
def test_changes_on_old_files_count_from_zero(tmp_path: Path, version: int) -> None:
    """A run that goes on from old files writes changes on them; these restore to what it had."""
    save_old(tmp_path / "old", version)
    running = make()
    with pytest.warns(UserWarning, match="dropped"):
        running.restore(tmp_path / "old" / "f")
    running.track_changes(True)
    running.should_be_filtered(IDS[::2])
    running.freeze(take_changes=True)
    running.save_frozen_changes(tmp_path / "f.changes")
    restored = make()
    with pytest.warns(UserWarning, match=f"version {version}"):
        restored.restore(tmp_path / "old" / "f", [tmp_path / "f.changes"])
    assert restored.native_filter.equals(running.native_filter)


@pytest.mark.parametrize("version", [2, 3])
def test_old_changes_are_dropped_too(tmp_path: Path, version: int) -> None:
    old = save_old(tmp_path / "old", version)
    old.track_changes(True)
    old.should_be_filtered(torch.arange(1000, 1100))
    old.freeze(take_changes=True)
    old.save_frozen_changes(tmp_path / "f.changes")
    with_header(tmp_path / "f.changes", version=version)
    restored = make()
    with pytest.warns(UserWarning, match="dropped"):
        restored.restore(tmp_path / "old" / "f", [tmp_path / "f.changes"])
    assert restored.native_filter.equals(make().native_filter)


def test_damage_is_found_in_files_of_the_version_before(tmp_path: Path) -> None:
    save_old(tmp_path / "old", 3)
    path = files(tmp_path / "old")[0]
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="the checksum of the block"):
        make().restore(tmp_path / "old" / "f")
