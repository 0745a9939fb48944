"""Admission filters count sightings, zero the gradients of ids not yet admitted, and survive a save."""

import os
import shutil
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from monolith._core import native
from monolith.embedding.admission import (
    HASH_FILTER_CAPACITY,
    HASH_FILTER_SPLIT_NUM,
    AdmissionFilter,
    FilterType,
    SlotOccurrenceThresholdConfig,
    create_dummy_hash_filter,
    create_hash_filter,
    create_hash_filters,
    create_probabilistic_filter,
    intercept_gradient,
)

IDS = torch.tensor([1, 3 << 17, 1])


def at_least(threshold: int) -> SlotOccurrenceThresholdConfig:
    return SlotOccurrenceThresholdConfig(default_occurrence_threshold=threshold)


def gradient(admission: AdmissionFilter, ids: Tensor) -> list[float]:
    """Run forward and backward with a gradient of ones; one figure per row."""
    embeddings = torch.randn(len(ids), 2, requires_grad=True)
    out = intercept_gradient(admission, ids, embeddings)
    assert torch.equal(out, embeddings)
    out.sum().backward()
    assert embeddings.grad is not None
    assert torch.equal(embeddings.grad[:, 0], embeddings.grad[:, 1])
    return embeddings.grad[:, 0].tolist()


class Header(NamedTuple):
    """The header of a filter file, as docs/formats.md has it."""

    magic: bytes
    version: int
    split: int
    split_num: int
    max_forward_step: int
    max_backward_step: int
    max_step: int
    head: int
    head_increment: int
    failure_count: int
    capacity: int
    total_size: int
    num_elements: int
    fill_rate: float
    first_bucket: int
    last_bucket: int
    state_crc: int
    header_crc: int


HEADER = struct.Struct("<8s6I6Qd4I")


def header(path: Path) -> Header:
    return Header(*HEADER.unpack(path.read_bytes()[: HEADER.size]))


def with_header(path: Path, **changes: object) -> None:
    """Rewrite header fields and make the checksum right again."""
    raw = HEADER.pack(*header(path)._replace(**changes))
    crc = native.crc32c(raw[:-4])
    raw = raw[:-4] + struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    path.write_bytes(raw + path.read_bytes()[HEADER.size :])


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_defaults() -> None:
    assert (HASH_FILTER_CAPACITY, HASH_FILTER_SPLIT_NUM) == (300000000, 7)
    assert [kind.value for kind in FilterType] == ["sliding_hash_filter", "probabilistic_filter", "no_filter"]


def test_gradients_pass_from_the_fourth_sighting_on_and_across_a_restore(tmp_path: Path) -> None:
    admission = create_hash_filter(100, 7, at_least(3))
    assert gradient(admission, IDS) == [0, 0, 0]
    assert gradient(admission, IDS) == [0, 0, 1]
    admission.save(tmp_path / "hash_filter_0")
    assert [path.name for path in files(tmp_path)] == [f"hash_filter_0-{i:05d}-of-00007" for i in range(7)]
    assert gradient(admission, IDS) == [1, 0, 1]
    assert gradient(admission, IDS) == [1, 1, 1]

    restored = create_hash_filter(100, 7, at_least(3))
    restored.restore(tmp_path / "hash_filter_0")
    assert gradient(restored, IDS) == [1, 0, 1]
    assert gradient(restored, IDS) == [1, 1, 1]


def test_a_hundred_splits(tmp_path: Path) -> None:
    ids = torch.tensor([1, 1 << 17, 2 << 17, 1])
    admission = create_hash_filter(300, 100, at_least(2))
    (tmp_path / "before").mkdir()
    admission.save(tmp_path / "before" / "f")
    assert len(files(tmp_path / "before")) == 100
    for path in files(tmp_path / "before"):
        found = header(path)
        assert (found.total_size, found.split_num, found.head, found.head_increment) == (3, 100, 0, 0)
        assert found.num_elements == 0

    assert gradient(admission, ids) == [0, 0, 0, 0]
    assert gradient(admission, ids) == [1, 0, 0, 1]
    (tmp_path / "after").mkdir()
    admission.save(tmp_path / "after" / "f")
    for split, path in enumerate(files(tmp_path / "after")):
        found = header(path)
        assert (found.split, found.head, found.head_increment) == (split, 4, 4)
        assert found.num_elements == (2 if split < 4 else 0)

    restored = create_hash_filter(300, 100, at_least(2))
    restored.restore(tmp_path / "after" / "f")
    assert gradient(restored, ids) == [1, 1, 1, 1]


def test_thresholds_by_slot() -> None:
    thresholds = SlotOccurrenceThresholdConfig(default_occurrence_threshold=1, slot_occurrence_thresholds={4: 0, 5: 2})
    admission = create_hash_filter(1000, 7, thresholds)
    ids = torch.tensor([3 << 48, 4 << 48, 5 << 48])
    assert admission.should_be_filtered(ids).tolist() == [True, False, True]
    assert admission.should_be_filtered(ids).tolist() == [False, False, True]
    assert admission.should_be_filtered(ids).tolist() == [False, False, False]
    assert admission.native_filter.estimated_total_element == 2  # slot 4 is not counted


def test_thresholds_beyond_the_counters_are_refused() -> None:
    create_hash_filter(300, 7, at_least(15))
    with pytest.raises(ValueError, match="16 can never be passed"):
        create_hash_filter(300, 7, at_least(16))
    create_probabilistic_filter(thresholds=at_least(16))
    with pytest.raises(ValueError, match="-1"):
        at_least(-1)
    with pytest.raises(ValueError, match="slot 32768"):
        SlotOccurrenceThresholdConfig(slot_occurrence_thresholds={32768: 1})


def test_a_dummy_filter_lets_all_pass_and_writes_nothing(tmp_path: Path) -> None:
    admission = create_dummy_hash_filter()
    assert gradient(admission, IDS) == [1, 1, 1]
    admission.save(tmp_path / "f")
    assert files(tmp_path) == []
    admission.restore(tmp_path / "f")


def test_a_probabilistic_filter_decides_only_for_a_table(tmp_path: Path) -> None:
    admission = create_probabilistic_filter(thresholds=at_least(1000))
    assert gradient(admission, IDS) == [1, 1, 1]
    admission.save(tmp_path / "f")
    assert files(tmp_path) == []
    filtered = [admission.native_filter.should_be_filtered(1, 1, 1000) for _ in range(100)]
    assert sum(filtered) > 90


def test_create_hash_filters() -> None:
    assert [f.name for f in create_hash_filters(0, True, filter_capacity=300)] == ["MonolithHashFilter"]
    assert [f.name for f in create_hash_filters(2, True, filter_capacity=300)] == [
        "MonolithHashFilter_0",
        "MonolithHashFilter_1",
    ]
    assert [f.name for f in create_hash_filters(2, False)] == ["DummyHashFilter_0", "DummyHashFilter_1"]
    chance = create_hash_filters(0, True, filter_equal_probability=True, filter_type="probabilistic_filter")
    assert chance[0].name == "MonolithProbabilisticFilter"
    assert chance[0].native_filter.equal_probability
    assert create_hash_filters(0, True, filter_type=FilterType.NO_FILTER)[0].name == "DummyHashFilter"
    with pytest.raises(ValueError, match="Invalid filter type, please investigate and retry!"):
        create_hash_filters(0, True, filter_type="bloom")


def test_the_default_filter_takes_little_memory_at_first() -> None:
    probe = (
        "import resource\n"
        "from monolith._core import native\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "f = native.SlidingHashFilter(300000000, 7)\n"
        "[f.add(i * 7919) for i in range(100)]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    grown_kib = int(subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True).stdout)
    assert grown_kib < 8192


def test_mistakes_are_named() -> None:
    admission = create_hash_filter(300, 7, at_least(1))
    with pytest.raises(TypeError, match="int64"):
        admission.should_be_filtered(torch.tensor([1], dtype=torch.int32))
    with pytest.raises(ValueError, match="one embedding row per id"):
        intercept_gradient(admission, torch.tensor([1, 2]), torch.ones(3, 2))
    with pytest.raises(ValueError, match="positive"):
        create_hash_filter(-1, 7)


# ---- files


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with the 7 files of a filter that holds 3000 ids."""
    admission = create_hash_filter(5000, 7, at_least(3))
    admission.should_be_filtered(torch.arange(3000) * 7919)
    (tmp_path / "saved").mkdir()
    admission.save(tmp_path / "saved" / "f")
    return tmp_path / "saved"


def assert_refused(folder: Path, error: type[Exception], match: str, capacity: int = 5000, split_num: int = 7) -> None:
    """Restore fails with that error, and the filter is as it was."""
    admission = create_hash_filter(capacity, split_num, at_least(3))
    admission.should_be_filtered(torch.arange(100))
    witness = create_hash_filter(capacity, split_num, at_least(3))
    witness.should_be_filtered(torch.arange(100))
    with pytest.raises(error, match=match):
        admission.restore(folder / "f")
    assert admission.native_filter.equals(witness.native_filter)


def test_restored_equals_saved_and_equal_states_give_equal_bytes(saved: Path, tmp_path: Path) -> None:
    admission = create_hash_filter(5000, 7, at_least(3))
    admission.should_be_filtered(torch.tensor([424242]))  # forgotten by the restore
    admission.restore(saved / "f")
    expected = create_hash_filter(5000, 7, at_least(3))
    expected.should_be_filtered(torch.arange(3000) * 7919)
    assert admission.native_filter.equals(expected.native_filter)
    assert admission.native_filter.head > 0
    (tmp_path / "again").mkdir()
    admission.save(tmp_path / "again" / "f")
    assert [p.read_bytes() for p in files(tmp_path / "again")] == [p.read_bytes() for p in files(saved)]


def test_only_blocks_in_use_are_written(tmp_path: Path) -> None:
    admission = create_hash_filter(300000000, 7, at_least(3))
    admission.should_be_filtered(torch.arange(3))
    admission.save(tmp_path / "f")
    sizes = [path.stat().st_size for path in files(tmp_path)]
    assert sizes == [104 + 3 * (16 + 20000 + 4) + 20] + [104 + 20] * 6


def test_missing_files(saved: Path, tmp_path: Path) -> None:
    assert_refused(tmp_path / "nowhere", FileNotFoundError, "There is no valid sharded files for")
    assert_refused(tmp_path, FileNotFoundError, "There is no valid sharded files for")
    files(saved)[3].unlink()
    assert_refused(saved, FileNotFoundError, "Shard 3 doesn't show up for")


def test_temporary_and_foreign_files_are_ignored(saved: Path) -> None:
    (saved / "f-00000-of-00007-tmp-1-1").write_bytes(b"x")
    (saved / "f-0000x-of-00007").write_bytes(b"x")
    (saved / "g-00000-of-00009").write_bytes(b"x")
    create_hash_filter(5000, 7).restore(saved / "f")


def test_a_filter_of_another_shape_is_refused(saved: Path) -> None:
    assert_refused(saved, ValueError, "doesn't match nshards", split_num=8)
    assert_refused(saved, ValueError, "capacity: 1000 doesn't match with: 833", capacity=6000)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"split_num": 9}, "split_num: 7 doesn't match with: 9 read from hash filter checkpoint file"),
        ({"max_forward_step": 3}, "max_forward_step: 2 doesn't match with: 3"),
        ({"max_backward_step": 4}, "max_backward_step: 5 doesn't match with: 4"),
        ({"max_step": 64}, "max_step: 16 doesn't match with: 64"),
        ({"total_size": 1 << 60}, "total_size"),
        ({"capacity": 1 << 60}, "capacity"),
        ({"fill_rate": float("nan")}, "fill_rate"),
        ({"head": 1 << 40}, "contradicts itself"),
        ({"head_increment": 2}, "contradicts itself"),
        ({"num_elements": 1 << 50}, "contradicts itself"),
        ({"num_elements": 1}, "do not add up"),
        ({"failure_count": 1}, "another save"),
        ({"split": 1}, "split 1 under the name of split 2"),
        ({"state_crc": 1}, "another save"),
        ({"version": 0}, "version 0 is unknown"),
        ({"version": 5}, "version 5 is unknown"),
        ({"version": 2}, "another save"),
        ({"version": 3}, "another save"),
        ({"last_bucket": 512}, "last_bucket: 1024 doesn't match with: 512"),
        ({"magic": b"TFRecord"}, "not an admission filter file"),
    ],
)
def test_hostile_headers_are_refused(saved: Path, change: dict[str, object], match: str) -> None:
    with_header(files(saved)[2], **change)
    assert_refused(saved, ValueError, match)


def test_a_file_of_another_save_is_refused(saved: Path, tmp_path: Path) -> None:
    other = create_hash_filter(5000, 7, at_least(3))
    other.should_be_filtered(torch.arange(3001) * 7919)
    (tmp_path / "other").mkdir()
    other.save(tmp_path / "other" / "f")
    shutil.copy(files(tmp_path / "other")[6], files(saved)[6])
    assert_refused(saved, ValueError, "another save")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_damage_is_noticed(saved: Path, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(files(saved)))
    whole = path.read_bytes()
    raw = bytearray(whole)
    kind = data.draw(st.sampled_from(["flip", "cut", "append"]))
    if kind == "flip":
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    else:
        raw += data.draw(st.binary(min_size=1, max_size=40))
    path.write_bytes(raw)
    try:
        assert_refused(saved, ValueError, "admission filter file")
    finally:
        path.write_bytes(whole)


def test_blocks_out_of_place_are_refused(saved: Path) -> None:
    path = files(saved)[0]
    raw = path.read_bytes()
    for offset, num_cells in [(5, 1063), (1 << 63, 1063), (10000, 1063), (0, 1 << 62), (0, 1062)]:
        path.write_bytes(raw[:104] + struct.pack("<2Q", offset, num_cells) + raw[120:])
        assert_refused(saved, ValueError, "out of place")
    block, footer = raw[104:-20], raw[-20:]
    path.write_bytes(raw[:104] + block + block + footer)
    assert_refused(saved, ValueError, "out of place")


def test_a_save_that_fails_leaves_the_old_files(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="cannot create"):
        create_hash_filter(5000, 7).save(tmp_path / "nowhere" / "f")
    before = {path: path.read_bytes() for path in files(saved)}
    files(saved)[4].unlink()
    (saved / "f-00004-of-00007").mkdir()  # the rename onto it fails
    with pytest.raises(OSError, match="cannot rename"):
        create_hash_filter(5000, 7).save(saved / "f")
    assert {path.name for path in files(saved)} == {path.name for path in before}


def test_saving_while_others_count(tmp_path: Path) -> None:
    admission = create_hash_filter(5000, 7, at_least(3))
    threads = [threading.Thread(target=admission.should_be_filtered, args=(torch.arange(20000),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    admission.save(tmp_path / "f")
    for thread in threads:
        thread.join()
    create_hash_filter(5000, 7).restore(tmp_path / "f")
    assert not [name for name in os.listdir(tmp_path) if "tmp" in name]
