"""How much of a source was read: what the bar and the time left are made from."""

import pytest

import monolith as mono
from monolith.data.progress import share_read


def shares(source):
    return [share_read(source) for _ in source]


def numbered(num_rows=8, batch_size=2):
    return mono.data.arrays({"uid": list(range(num_rows))}, batch_size=batch_size)


def write_lines(folder, *counts):
    paths = []
    for number, count in enumerate(counts):
        path = folder / f"{number}.csv"
        path.write_text("uid\n" + "".join(f"{one:07}\n" for one in range(count)))
        paths.append(str(path))
    return paths


def test_rows_in_memory():
    assert shares(numbered()) == [0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize(
    ("steps", "last"),
    [
        (lambda source: source.map(lambda batch: batch), 1.0),
        (lambda source: source.rebatch(4), 1.0),
        (lambda source: source.shuffle(window=4, batch_size=2), 1.0),
        (lambda source: source.repeat(2), 1.0),
        (lambda source: source.take(3), 1.0),
        (lambda source: source.prefetch(), 1.0),
        (lambda source: source.take(100), 1.0),
    ],
)
def test_steps_on_the_way_keep_it(steps, last):
    found = shares(steps(numbered()))
    assert found == sorted(found)
    assert found[-1] == last


def test_epochs_count_together():
    assert shares(numbered().repeat(2))[:4] == [0.125, 0.25, 0.375, 0.5]


def test_files_count_by_their_size(tmp_path):
    source = mono.data.csv(write_lines(tmp_path, 10, 30), batch_size=5, uid="int64")
    found = shares(source)
    assert found == sorted(found)
    assert found[1] == pytest.approx(0.25, abs=0.02)  # the first file, a quarter of all lines
    assert found[-1] == 1.0


def test_a_stream_without_an_end_has_none(tmp_path):
    assert share_read(mono.data.synthetic(mono.data.MovieEvents(7), batch_size=4)) is None
    assert share_read(numbered().repeat()) is None
    assert share_read(object()) is None


def test_a_packed_file_alone_says_nothing(tmp_path):
    with mono.data.TFRecordWriter(f"{tmp_path}/a.gz") as writer:
        writer.write_all([b"x" * 100] * 10)
    source = mono.data.tfrecord(f"{tmp_path}/a.gz", batch_size=5)
    assert shares(source) == [None, None]


def test_a_packed_file_is_counted_as_a_whole(tmp_path):
    for name in "ab":
        with mono.data.TFRecordWriter(f"{tmp_path}/{name}.gz") as writer:
            writer.write_all([b"x" * 100] * 10)
    source = mono.data.tfrecord([f"{tmp_path}/a.gz", f"{tmp_path}/b.gz"], batch_size=5)
    assert shares(source) == [0.0, 0.0, 0.5, 0.5]
