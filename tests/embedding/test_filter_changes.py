"""Changes of an admission filter: a save and the changes since are what the filter is, to the bit."""

import struct

import pytest
import torch

from monolith._core import native
from monolith.embedding.admission import create_hash_filter, create_probabilistic_filter, join_filters

CAPACITY = 600


def counted(admission, ids):
    for one in ids.tolist():
        admission.native_filter.add(one)


def ids_of(seed, count=40):
    return torch.randint(-(2**62), 2**62, (count,), generator=torch.Generator().manual_seed(seed))


def restored(base, changes, **settings):
    admission = create_hash_filter(CAPACITY, **settings)
    admission.restore(base, changes)
    return admission


@pytest.fixture
def chain(tmp_path):
    """A filter, the basename of a save of it, and the file of the changes since."""
    admission = create_hash_filter(CAPACITY)
    counted(admission, ids_of(1, 300))
    admission.track_changes(True)
    admission.save(tmp_path / "base")
    counted(admission, ids_of(2, 20))
    assert admission.freeze(take_changes=True)
    admission.save_frozen_changes(tmp_path / "base.changes")
    return admission, tmp_path / "base", tmp_path / "base.changes"


def test_a_save_and_all_changes_since_are_the_filter(tmp_path):
    admission = create_hash_filter(CAPACITY)
    counted(admission, ids_of(0, 300))
    admission.track_changes(True)
    admission.save(tmp_path / "base")
    changes = []
    for round_ in range(40):
        # 20 ids come back, 20 are new: the ring turns, splits are emptied, counts move forward.
        counted(admission, torch.cat([ids_of(round_, 40)[20:], ids_of(round_ + 1, 20)]))
        admission.freeze(take_changes=True)
        exact = create_hash_filter(CAPACITY)
        admission.save(tmp_path / f"exact-{round_}")
        exact.restore(tmp_path / f"exact-{round_}")
        counted(admission, ids_of(1000 + round_, 120))  # after the moment, before it is written
        changes.append(tmp_path / f"{round_}.changes")
        admission.save_frozen_changes(changes[-1])
        assert restored(tmp_path / "base", changes).native_filter.equals(exact.native_filter)
    assert admission.native_filter.head_increment > 14, "the ring did not turn: the test shows less than it says"


def test_only_changes_are_written(chain):
    admission, base, changes = chain
    whole = sum(path.stat().st_size for path in base.parent.glob("base-*"))
    # A header and footer, 7 heads, a block or two, and 4 bytes for each of the 20.
    assert changes.stat().st_size <= 104 + 20 + 7 * 24 + 2 * 20 + 20 * 4
    assert changes.stat().st_size < whole / 4


def test_nothing_changed_is_a_small_file_too(chain, tmp_path):
    admission, base, changes = chain
    assert admission.freeze(take_changes=True)
    admission.save_frozen_changes(tmp_path / "none")
    assert (tmp_path / "none").stat().st_size == 104 + 7 * 24 + 20
    assert restored(base, [changes, tmp_path / "none"]).native_filter.equals(admission.native_filter)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_parts_take_what_concerns_them(chain, tmp_path, count):
    admission, base, changes = chain
    admission.save(tmp_path / "whole")
    parts = [restored(base, [changes], shard=(number, count)) for number in range(count)]
    for number, part in enumerate(parts):
        assert part.native_filter.equals(restored(tmp_path / "whole", [], shard=(number, count)).native_filter)
    assert join_filters(parts).native_filter.equals(admission.native_filter)


def test_what_is_restored_counts_as_changed(chain, tmp_path):
    admission, base, _ = chain
    other = create_hash_filter(CAPACITY)
    counted(other, ids_of(77, 100))
    other.save(tmp_path / "other")
    admission.restore(tmp_path / "other")
    counted(admission, ids_of(5, 3))
    admission.freeze(take_changes=True)
    admission.save_frozen_changes(tmp_path / "changes")
    assert restored(base, [tmp_path / "changes"]).native_filter.equals(admission.native_filter)


def test_without_tracking_there_are_no_changes(tmp_path):
    admission = create_hash_filter(CAPACITY)
    assert not admission.freeze(take_changes=True)
    with pytest.raises(RuntimeError, match="not frozen with its changes"):
        admission.save_frozen_changes(tmp_path / "changes")
    admission.drop_frozen()
    admission.track_changes(True)
    assert not admission.freeze()
    admission.drop_frozen()
    admission.track_changes(False)
    assert not admission.freeze(take_changes=True)
    assert not create_probabilistic_filter().freeze(take_changes=True)


def test_damage_anywhere_is_noticed_and_changes_nothing(chain):
    _, base, changes = chain
    good = changes.read_bytes()
    admission = restored(base, [])
    before = restored(base, [])
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 0x10
        changes.write_bytes(bad)
        with pytest.raises(ValueError, match=r"\.changes"):
            admission.restore(base, [changes])
    for length in (*range(0, len(good), 7), len(good) - 1):
        changes.write_bytes(good[:length])
        with pytest.raises(ValueError, match="too early"):
            admission.restore(base, [changes])
    changes.write_bytes(good + b"\0")
    with pytest.raises(ValueError, match="after its footer"):
        admission.restore(base, [changes])
    assert admission.native_filter.equals(before.native_filter)
    with pytest.raises(FileNotFoundError):
        admission.restore(base, [changes.with_name("absent")])


HEADER, HEAD, BLOCK = 104, 24, 16


def masked(data):
    crc = native.crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def crafted(good, *, num_elements=None, num_blocks=None, emptied=0, block=None):
    """Split 0 as told, with right checksums, and nothing for the others."""
    pages = b"" if block is None else block
    count = (1 if block is not None else 0) if num_blocks is None else num_blocks
    head = struct.pack("<QQI", 1 if num_elements is None else num_elements, count, emptied)
    rest = struct.pack("<QQI", 0, 0, 0)
    footer = struct.pack("<QQ", 2**64 - 1, 1 if block is not None else 0)
    heads = head + masked(head) + pages + 6 * (rest + masked(rest))
    return good[:HEADER] + heads + footer + struct.pack("<I", native.crc32c(footer))


def page(offset, cells, count=None):
    data = struct.pack("<QQ", offset, len(cells) if count is None else count)
    data += b"".join(struct.pack("<HH", *cell) for cell in cells)
    return data + struct.pack("<I", native.crc32c(data))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"block": page(0, [(3, 17)])}, None),  # a good one: only what follows is wrong with the others
        ({"num_elements": 2**40}, "contradicts"),
        ({"emptied": 2}, "contradicts"),
        ({"num_blocks": 2**60}, "out of place|too early"),
        ({"block": page(0, [(3, 16)])}, "change of cell 3 is none"),
        ({"block": page(0, [(3, 17), (3, 17)])}, "change of cell 3 is none"),
        ({"block": page(0, [(9, 17), (3, 17)])}, "change of cell 3 is none"),
        ({"block": page(0, [(60_000, 17)])}, "change of cell 60000 is none"),
        ({"block": page(0, [], 2**50)}, "out of place"),
        ({"block": page(0, [])}, "out of place"),
        ({"block": page(64, [(3, 17)])}, "out of place"),
        ({"block": page(65_536 * 10**9, [(3, 17)])}, "out of place"),
    ],
)
def test_a_hostile_file_is_refused(chain, change, words):
    _, base, changes = chain
    changes.write_bytes(crafted(changes.read_bytes(), **change))
    if words is None:
        restored(base, [changes])
        return
    with pytest.raises(ValueError, match=words):
        restored(base, [changes])


def test_changes_of_another_filter_are_refused(chain, tmp_path):
    _, base, changes = chain
    other = create_hash_filter(2 * CAPACITY)
    other.track_changes(True)
    other.freeze(take_changes=True)
    other.save_frozen_changes(tmp_path / "other")
    with pytest.raises(ValueError, match="capacity"):
        restored(base, [tmp_path / "other"])
    with pytest.raises(ValueError, match="not an admission filter file of this kind"):
        restored(base, [next(base.parent.glob("base-00000-of-*"))])
