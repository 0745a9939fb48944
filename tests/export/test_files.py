"""The files of an export: complete or not there, and refused when anything is wrong with them."""

import json
import os
import shutil
import threading

import numpy as np
import onnxruntime
import pytest
import torch

from monolith.embedding import FixedR8Compressor, Fp16Compressor, OneBitCompressor
from monolith.errors import CorruptFileError
from monolith.export import latest_version, load_export, newest_export, next_version, remove_unfinished
from monolith.export.dense_graph import dense_weights
from tests.export.crafted import rewrite
from tests.export.movie import eager, export, request, trained


@pytest.fixture(scope="module")
def parts():
    return dict(zip(("model", "plan", "tables"), trained(), strict=True))


def write(base, version, parts, **options):
    return export(base, version, **parts, **options)


def test_what_is_in_the_folder(tmp_path, parts):
    path = write(tmp_path, 1, parts)
    files = {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()}
    tables = {"tables/mov-00000-of-00001", "tables/uid-00000-of-00001"}
    assert files == {"model.json", "dense.onnx", "dense.safetensors", "warmup.jsonl", *tables}
    assert set(json.loads((path / "model.json").read_text())["files"]) == files - {"model.json"}


def test_all_files_have_the_rights_of_new_files(tmp_path, parts, usual_rights):
    path = write(tmp_path, 1, parts)
    rights = {file.name: oct(file.stat().st_mode & 0o777) for file in path.rglob("*") if file.is_file()}
    assert rights == dict.fromkeys(rights, oct(usual_rights))
    assert len(rights) == 6


def test_a_weight_that_lies_transposed_in_memory_is_written_as_it_reads(tmp_path, parts):
    weights = dense_weights(parts["model"])
    lying = {name: np.asfortranarray(value) if value.ndim == 2 else value for name, value in weights.items()}
    assert not all(value.flags.c_contiguous for value in lying.values())
    served = load_export(write(tmp_path, 1, parts, weights=lying))
    for name, value in weights.items():
        np.testing.assert_array_equal(served.dense_weights[name], value)


def test_the_graph_alone_finds_its_weights_in_the_file_beside_it(tmp_path, parts):
    path = write(tmp_path, 1, parts)
    # The weights are in dense.safetensors only.
    assert len((path / "dense.onnx").read_bytes()) < 10_000
    session = onnxruntime.InferenceSession(path / "dense.onnx")
    columns = request(7)
    rows = {
        "row/uid/vec": parts["tables"]["uid"].lookup(torch.from_numpy(columns["uid"])).numpy(),
        "row/mov/vec": parts["tables"]["mov"].lookup(torch.from_numpy(columns["mov"]))[:, :6].numpy(),
        "row/mov/bias": parts["tables"]["mov"].lookup(torch.from_numpy(columns["mov"]))[:, 6:].numpy(),
    }
    (alone,) = session.run(None, {**rows, "column/hour": columns["hour"]})
    expected = eager(parts["model"], parts["plan"], parts["tables"], columns)
    np.testing.assert_allclose(alone, expected, rtol=0, atol=1e-6)


def test_the_graph_does_not_tell_where_the_source_lies(tmp_path, parts):
    content = (write(tmp_path, 1, parts) / "dense.onnx").read_bytes()
    assert b".py" not in content
    assert b"MovieRanking" not in content


@pytest.mark.parametrize(
    ("compressor", "read"),
    [
        (Fp16Compressor(), lambda row: row.half().float()),
        (FixedR8Compressor(4.0), lambda row: (row * 32).round().clamp(-128, 127) / 32),
        (OneBitCompressor(amplitude=0.5), lambda row: torch.where(row > 0, 0.5, -0.5)),
    ],
    ids=["fp16", "fixed_r8", "one_bit"],
)
def test_rows_are_stored_as_the_compressor_says(tmp_path, parts, compressor, read):
    path = write(tmp_path, 1, parts, compressors={"mov": compressor})
    full = write(tmp_path, 2, parts)
    ids = torch.arange(200)
    served = load_export(path)
    expected = read(parts["tables"]["mov"].lookup(ids))
    # One step of the 8-bit grid: which way a half is rounded is the core's business.
    torch.testing.assert_close(served.tables["mov"].lookup(ids), expected, rtol=0, atol=1 / 32 + 1e-6)
    assert torch.equal(served.tables["uid"].lookup(ids), parts["tables"]["uid"].lookup(ids))
    sizes = [(folder / "tables/mov-00000-of-00001").stat().st_size for folder in (path, full)]
    assert sizes[0] < sizes[1]


def test_rows_are_written_without_optimizer_state(tmp_path, parts):
    path = write(tmp_path, 1, parts)
    parts["tables"]["mov"].save(tmp_path / "training")
    served, training = (
        file.stat().st_size for file in (path / "tables/mov-00000-of-00001", tmp_path / "training-00000-of-00001")
    )
    # 200 rows of 7 floats of Adagrad state.
    assert training - served >= 200 * 7 * 4


def test_progress_is_told(tmp_path, parts):
    told = []
    write(tmp_path, 1, parts, progress=lambda *step: told.append(step))
    assert {name for name, _, _ in told} == {"mov", "uid"}
    for name in ("mov", "uid"):
        steps = [done for told_name, done, total in told if told_name == name and total == 200]
        assert steps == sorted(steps)
        assert steps[-1] == 200


def test_the_newest_complete_version_serves(tmp_path, parts):
    assert latest_version(tmp_path) is None
    assert next_version(tmp_path) == 1
    for version in (9, 10, 2):
        write(tmp_path, version, parts)
    (tmp_path / "11").mkdir()
    (tmp_path / "12.tmp").mkdir()
    (tmp_path / "notes").mkdir()
    assert latest_version(tmp_path) == tmp_path / "10" == newest_export(tmp_path)
    assert next_version(tmp_path) == 13
    assert remove_unfinished(tmp_path) == ["12.tmp"]


def test_a_base_without_a_complete_version_is_a_clear_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        newest_export(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="it has no numbered version folder"):
        newest_export(tmp_path)
    (tmp_path / "3.tmp").mkdir()
    (tmp_path / "4").mkdir()
    with pytest.raises(FileNotFoundError, match=r"of 3\.tmp, 4 none has its model\.json, which is written last"):
        newest_export(tmp_path)


def test_a_version_is_never_written_twice(tmp_path, parts):
    path = write(tmp_path, 1, parts)
    before = (path / "model.json").read_bytes()
    with pytest.raises(FileExistsError, match="version 1 is already in"):
        write(tmp_path, 1, parts)
    assert (path / "model.json").read_bytes() == before


def test_what_a_killed_writer_left_does_not_matter(tmp_path, parts):
    (tmp_path / "1.tmp" / "tables").mkdir(parents=True)
    (tmp_path / "1.tmp" / "tables" / "mov-00000-of-00002").write_bytes(b"half")
    load_export(write(tmp_path, 1, parts))
    assert sorted(os.listdir(tmp_path)) == ["1", "ExportSaverListenerState", "shared.secret"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_writer_that_fails_leaves_nothing(tmp_path, parts, error):
    def fail(*_):
        raise error

    with pytest.raises(error):
        write(tmp_path, 1, parts, progress=fail)
    assert os.listdir(tmp_path) == []


@pytest.fixture(scope="module")
def intact(tmp_path_factory, parts):
    return write(tmp_path_factory.mktemp("intact"), 1, parts)


FILES = ("model.json", "dense.onnx", "dense.safetensors", "warmup.jsonl", "tables/mov-00000-of-00001")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flipped", "cut", "removed", "longer"])
def test_a_damaged_file_is_refused_by_name(tmp_path, intact, name, damage):
    path = shutil.copytree(intact, tmp_path / "1")
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 1
    after = {"flipped": content, "cut": content[: len(content) // 2], "longer": (path / name).read_bytes() + b"x"}
    if damage == "removed":
        (path / name).unlink()
    else:
        (path / name).write_bytes(after[damage])
    with pytest.raises(CorruptFileError, match=name):
        load_export(path)


def test_a_file_outside_the_folder_is_refused(tmp_path, intact):
    path = shutil.copytree(intact, tmp_path / "1")
    rewrite(path, lambda fields: fields["files"].update({"../secret": {"bytes": 1, "crc32c": 0}}))
    with pytest.raises(CorruptFileError, match=r"names the file '\.\./secret', which is not below its folder"):
        load_export(path)


def test_an_export_of_an_older_minor_version_is_read(tmp_path, intact):
    path = shutil.copytree(intact, tmp_path / "1")
    rewrite(path, lambda fields: fields.update(minor=0))
    assert load_export(path).predict(request(2))["pred"].shape == (2,)


def test_another_major_version_is_refused(tmp_path, intact):
    path = shutil.copytree(intact, tmp_path / "1")
    rewrite(path, lambda fields: fields.update(major=2))
    with pytest.raises(CorruptFileError, match="format .*2.*this program reads"):
        load_export(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"null", b"[" * 100_000, b'{"format": "monolith-export"}'])
def test_something_else_in_place_of_the_description_is_refused(tmp_path, intact, content):
    path = shutil.copytree(intact, tmp_path / "1")
    (path / "model.json").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"model\.json"):
        load_export(path)


def test_training_goes_on_while_an_export_is_written(tmp_path):
    """Every exported row is whole: its floats are all of one assignment."""
    model, plan, tables = trained(num_ids=5000)
    weights = dense_weights(model)
    stop, ids = threading.Event(), torch.arange(5000)
    tables["mov"].assign(ids, torch.zeros(5000, 7))

    def train():
        value = 0
        while not stop.is_set():
            value += 1
            tables["mov"].assign(ids, torch.full((5000, 7), float(value)))

    trainer = threading.Thread(target=train)
    trainer.start()
    try:
        path = export(tmp_path, model=model, plan=plan, tables=tables, weights=weights)
    finally:
        stop.set()
        trainer.join()
    rows = load_export(path).tables["mov"].lookup(ids)
    assert torch.equal(rows, rows[:, :1].expand(-1, 7))
    assert len(rows) == 5000
