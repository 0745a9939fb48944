"""A filter over several shards: parts count as the whole does, and are put together and taken apart without loss."""

from pathlib import Path

import pytest
import torch

from monolith._core import native
from monolith.embedding.admission import create_hash_filter
from monolith.embedding.hash_shards import shards_of_ids
from tests.embedding.written_hash import hash_of

CAPACITY = 6000


# Their signatures are all different, so no two of these ids share a count.
IDS = list({hash_of(one) & 0xFFF: one for one in range(30_000)}.values())[:4000]


def make_parts(num_parts: int, capacity: int = CAPACITY) -> list[native.SlidingHashFilter]:
    return [native.SlidingHashFilter(capacity, 7, part, num_parts) for part in range(num_parts)]


def part_of(parts: list[native.SlidingHashFilter], one: int) -> native.SlidingHashFilter:
    return parts[int(shards_of_ids(torch.tensor([one]), len(parts)))]


def count(parts: list[native.SlidingHashFilter], ids: list[int]) -> None:
    for one in ids:
        part_of(parts, one).add(one)


def bytes_of(counts: native.SlidingHashFilter, folder: Path) -> list[bytes]:
    folder.mkdir()
    counts.save(str(folder / "f"))
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def restored(folder: Path, num_parts: int, capacity: int = CAPACITY) -> list[native.SlidingHashFilter]:
    parts = make_parts(num_parts, capacity)
    for part in parts:
        part.restore(str(folder / "f"))
    return parts


@pytest.mark.parametrize("num_parts", [1, 2, 3, 7])
def test_parts_joined_know_what_the_whole_would_know(num_parts: int) -> None:
    whole, parts = native.SlidingHashFilter(60_000, 7), make_parts(num_parts, 60_000)
    seen = IDS + IDS[::2] + IDS[::3]
    count(parts, seen)
    for one in seen:
        whole.add(one)
    joined = native.join_filters(parts)
    assert [joined.get(one) for one in IDS] == [whole.get(one) for one in IDS]
    assert joined.estimated_total_element == whole.estimated_total_element == len(IDS)


def test_taken_apart_and_joined_in_any_number_it_is_the_same_to_the_byte(tmp_path: Path) -> None:
    whole = native.SlidingHashFilter(CAPACITY, 7)
    for one in IDS + IDS[-1000:]:
        whole.add(one)
    assert whole.head > 0
    first = bytes_of(whole, tmp_path / "0")
    for number, num_parts in enumerate([3, 5, 256, 1000, 1]):
        joined = native.join_filters(restored(tmp_path / str(number), num_parts))
        assert bytes_of(joined, tmp_path / str(number + 1)) == first


def test_a_part_goes_on_with_the_counts_of_its_ids(tmp_path: Path) -> None:
    whole = native.SlidingHashFilter(CAPACITY, 7)
    for one in IDS[-800:]:
        whole.add(one, 2)
    bytes_of(whole, tmp_path / "whole")
    parts = restored(tmp_path / "whole", 3)
    assert [part_of(parts, one).add(one) for one in IDS[-800:]] == [2] * 800
    assert [native.join_filters(parts).get(one) for one in IDS[-800:]] == [3] * 800
    # Each keeps what it needs and no more: some ids at a border are on both sides.
    total = sum(part.estimated_total_element for part in restored(tmp_path / "whole", 3))
    assert 800 <= total <= 800 + 2 * 16 * 2


def test_parts_whose_heads_moved_differently_often_are_joined_head_to_head(tmp_path: Path) -> None:
    parts = make_parts(2, 3000)
    lower = [one for one in IDS if native.bucket_of_id(one) < 512]
    upper = [one for one in IDS if native.bucket_of_id(one) >= 512]
    count(parts, lower[:1550] + upper[:200])
    # The split that the first part empties next is the one in which the second has its counts.
    assert (parts[0].head_increment, parts[1].head_increment) == (6, 0)
    recent = lower[1350:1550] + upper[:200]
    joined = native.join_filters(parts)
    assert joined.head_increment == parts[0].head_increment
    assert [joined.get(one) for one in recent] == [1] * len(recent)
    # What a part forgets next is what it would have forgotten next.
    bytes_of(joined, tmp_path / "joined")
    again = restored(tmp_path / "joined", 2, 3000)
    count(again, upper[200:900])
    count(parts, upper[200:900])
    assert parts[1].get(upper[0]) == 1
    assert [again[1].get(one) for one in upper] == [parts[1].get(one) for one in upper]


def test_a_part_holds_its_share_before_it_forgets() -> None:
    whole, quarter = native.SlidingHashFilter(CAPACITY, 7), native.SlidingHashFilter(CAPACITY, 7, 0, 4)
    own = [one for one in IDS if native.bucket_of_id(one) < 256]
    for one in own[:240]:
        whole.add(one)
        quarter.add(one)
    assert whole.head == 0
    assert quarter.head == 0
    for one in own[240:260]:
        quarter.add(one)
    assert quarter.head == 1  # a split of the whole holds 1000


def test_failures_add_up_again(tmp_path: Path) -> None:
    parts = make_parts(2, 300)
    crowd = [one for one in range(60_000) if native.bucket_of_id(one) in {5, 700}]
    for one in crowd * 3:
        part_of(parts, one).add(one)
    assert min(part.failure_count for part in parts) > 0
    joined = native.join_filters(parts)
    assert joined.failure_count == sum(part.failure_count for part in parts)
    bytes_of(joined, tmp_path / "joined")
    assert sum(part.failure_count for part in restored(tmp_path / "joined", 5, 300)) == joined.failure_count


def test_what_cannot_be_joined_is_refused() -> None:
    parts = make_parts(3)
    with pytest.raises(ValueError, match="the part of shard 1 of 3 stands where that of shard 0 of 3"):
        native.join_filters(parts[1:])
    with pytest.raises(ValueError, match="the part of shard 2 of 3 stands where that of shard 1 of 3"):
        native.join_filters([parts[0], parts[2]])
    with pytest.raises(ValueError, match="the part of shard 2 of 3 is missing"):
        native.join_filters(parts[:2])
    with pytest.raises(ValueError, match="the part of shard 0 of 1 is missing"):
        native.join_filters([])
    parts[0].add(next(one for one in IDS if native.bucket_of_id(one) > 900))
    with pytest.raises(ValueError, match="shard 0 of 3 has counted ids of others; send each id to its shard"):
        native.join_filters(parts)
    with pytest.raises(ValueError, match="there is no shard 7 of 7"):
        create_hash_filter(CAPACITY, shard=(7, 7))


def test_the_files_of_a_part_are_those_of_that_part_alone(tmp_path: Path) -> None:
    parts = make_parts(2)
    count(parts, IDS[:100])
    files = bytes_of(parts[1], tmp_path / "part")
    same = make_parts(2)[1]
    same.restore(str(tmp_path / "part" / "f"))
    assert same.equals(parts[1])
    assert bytes_of(same, tmp_path / "again") == files
    for other in (parts[0], native.SlidingHashFilter(CAPACITY, 7)):
        with pytest.raises(ValueError, match="bucket: .* doesn't match with: "):
            other.restore(str(tmp_path / "part" / "f"))
