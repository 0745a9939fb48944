"""`monolith forget` without a run: ids go out of every snapshot, delta, export and list of texts."""

import itertools
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import monolith as mono
import monolith.checkpoint.forget.model_dir as model_dir
import monolith.checkpoint.forget.state_folder as state_folder
import monolith.export.forgetting.versions as versions
from monolith._core import native
from monolith.checkpoint import latest_state, list_snapshots
from monolith.checkpoint.forget.rows import ids_in, write_without
from monolith.checkpoint.format.delta_chain import chain_to, check_chain, read_erased
from monolith.checkpoint.format.layout import list_deltas, state_order
from monolith.checkpoint.inspect.row_report import read_row
from monolith.checkpoint.keep import SnapshotStore, roll_back
from monolith.cli.app import app
from monolith.embedding import AdagradOptimizer, Segment, Table, TableConfig
from monolith.embedding.admission import SlotOccurrenceThresholdConfig, create_hash_filter
from monolith.errors import CorruptFileError
from monolith.export import import_saved_model
from monolith.export.description import Description, FileCheck
from monolith.features.string_hash import hash_bytes
from monolith.train.forget import forget as forget_ids
from tests.checkpoint.small_state import State
from tests.train.forget.users import FOLDERS, OTHER, RARE, TEXT, USER, Users, files_with, files_with_text, train

TEXT_ID = hash_bytes(TEXT.encode())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Snapshots, deltas on them, one that was set aside, texts, and versions of both layouts."""
    folder = tmp_path_factory.mktemp("trained") / "model"
    saves = dict(save_checkpoints_steps=5, delta_every_steps=2, keep_strings=True)
    train(folder, **saves)
    roll_back(list_deltas(folder)[-3])
    train(folder, steps=1, **saves)
    config = mono.RunConfig(model_dir=str(folder), export_base=str(folder / "exports"), **FOLDERS)
    estimator = mono.Estimator(Users, config)
    estimator.export_saved_model()
    spread = mono.RunConfig(
        model_dir=str(folder),
        export_base=str(folder / "spread"),
        export_mode="distributed",
        export_num_shards=2,
        **FOLDERS,
    )
    mono.Estimator(Users, spread).export_saved_model()
    mono.Estimator(Users, spread).export_saved_model(dense_only=True)
    return folder


@pytest.fixture
def folder(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "model")


def forget(folder, *flags, code=0):
    done = CliRunner().invoke(app, ["forget", str(folder), *flags, "--json"])
    assert done.exit_code == code, (done.output, done.exception)
    return json.loads(done.output)


def predict(base, uid, mov="movie 1", page=1):
    with import_saved_model(base) as infer:
        return infer({"uid": np.array([uid]), "mov": [mov], "page": np.array([page])})


def states(folder):
    return [*list_snapshots(folder), *list_deltas(folder)]


def test_an_id_is_in_no_file_and_reads_like_an_unknown_one(folder):
    before = {path.name: read_row(path, "uid", OTHER) for path in states(folder)}
    assert len(list_deltas(folder)) >= 2 and any("rolled-back" in one.name for one in folder.iterdir())
    assert len(files_with(folder, USER)) >= 6
    looked = forget(folder, "--table", "uid", "--id", str(USER), "--dry-run")
    assert len(files_with(folder, USER)) >= 6 and looked["rewritten"] == []

    report = forget(folder, "--table", "uid", "--id", str(USER))
    assert files_with(folder, USER) == []
    assert {one["place"] for one in report["found"]} == {one["place"] for one in looked["found"]}
    assert all(one["ids"] == [USER] and one["kind"] == "row" for one in report["found"])
    assert not [path for path in folder.rglob("*") if path.name.endswith((".tmp", ".exchanged"))]
    for path in states(folder):
        assert not read_row(path, "uid", USER).found
        known, now = before[path.name], read_row(path, "uid", OTHER)
        assert [one.values for one in now.slices] == [one.values for one in known.slices]
    for base in (folder / "exports", folder / "spread"):
        assert predict(base, USER) == predict(base, 987_654_321)
        assert predict(base, OTHER) != predict(base, 987_654_321)
    assert forget(folder, "--table", "uid", "--id", str(USER))["found"] == []


def test_a_run_goes_on_from_what_was_rewritten(folder):
    newest = latest_state(folder)
    forget(folder, "--table", "uid", "--id", str(USER))
    assert latest_state(folder) == newest and check_chain(chain_to(newest))
    assert train(folder, steps=1).num_steps == 1


def test_ids_of_a_file_a_text_and_its_entry_in_the_list_of_texts(folder, tmp_path):
    (tmp_path / "ids").write_text(f"{USER}\n{OTHER}\n\n")
    report = forget(folder, "--feature", "uid", "--ids", str(tmp_path / "ids"))
    assert report["targets"] == {"uid": [OTHER, USER]}
    assert files_with(folder, USER) == files_with(folder, OTHER) == []

    assert files_with_text(folder) == ["strings.tfrecord"] and files_with(folder, TEXT_ID)
    report = forget(folder, "--table", "mov", "--text", TEXT)
    assert {one["kind"] for one in report["found"]} == {"row", "text"}
    assert files_with_text(folder) == files_with(folder, TEXT_ID) == []
    assert files_with_text(folder, "movie 1") == ["strings.tfrecord"]
    assert read_row(folder, "mov", "movie 1").text == "movie 1"


def test_the_count_of_an_id_without_a_row_goes_too(folder):
    counts = [path for path in states(folder) if "seen 1 times" in " ".join(read_row(path, "page", RARE).notes)]
    assert len(counts) > len(list_snapshots(folder))  # also those of deltas, which have the cells that changed
    report = forget(folder, "--table", "page", "--id", str(RARE))
    assert {one["kind"] for one in report["found"]} == {"count"}
    assert {one["place"] for one in report["found"]} >= {str(path) for path in counts if path in list_snapshots(folder)}
    for path in states(folder):
        assert "never seen" in " ".join(read_row(path, "page", RARE).notes)
        assert check_chain(chain_to(path))


def test_numbers_inside_a_slot_are_fids(folder):
    report = forget(folder, "--table", "uid", "--slot", "4386", "--id", str(USER & ((1 << 48) - 1)))
    assert report["targets"] == {"uid": [USER]} and files_with(folder, USER) == []


def test_a_mirror_gets_new_copies(folder, tmp_path):
    store = SnapshotStore(str(tmp_path / "mirror"))
    for path in sorted(states(folder), key=state_order):
        store.put(path)
    assert files_with(tmp_path / "mirror", USER)
    forget(folder, "--table", "uid", "--id", str(USER), "--mirror", str(tmp_path / "mirror"))
    assert files_with(tmp_path / "mirror", USER) == []
    fetched = store.fetch(tmp_path / "elsewhere")
    assert check_chain(chain_to(fetched)) and not read_row(fetched, "uid", USER).found


def test_requests_for_warm_up_that_name_the_id_go(folder):
    version = folder / "exports" / "1"
    requests = [{"inputs": {"uid": [one], "mov": ["x"], "page": [1]}} for one in (USER, 5)]
    add_file(version, "warmup.jsonl", "\n".join(map(json.dumps, requests)).encode())
    report = forget(folder, "--table", "uid", "--id", str(USER))
    assert "warm-up request" in {one["kind"] for one in report["found"]}
    assert [json.loads(line) for line in (version / "warmup.jsonl").open()] == requests[1:]
    assert files_with(folder, USER) == [] and predict(folder / "exports", 5)


def test_requests_for_warm_up_go_beside_rows_of_shards_too(folder):
    versions = [folder / "spread" / "entry" / name for name in ("1", "2")]
    requests = [{"inputs": {"uid": [one], "mov": ["x"], "page": [1]}} for one in (USER, 5)]
    for version in versions:
        add_file(version, "warmup.jsonl", "\n".join(map(json.dumps, requests)).encode())
    # As a call leaves it that was killed after it took the file out of the list.
    description = Description.read(versions[1])
    files = {name: check for name, check in description.files.items() if name != "warmup.jsonl"}
    (versions[1] / "model.json").write_bytes(replace(description, files=files).to_bytes())
    forget(folder, "--table", "uid", "--id", str(USER))
    for version in versions:
        assert [json.loads(line) for line in (version / "warmup.jsonl").open()] == requests[1:]
        assert Description.read(version).files["warmup.jsonl"] == FileCheck.of(version / "warmup.jsonl")
    assert predict(folder / "spread", 5)


def add_file(version, name, content):
    (version / name).write_bytes(content)
    description = Description.read(version)
    files = {**description.files, name: FileCheck.of(version / name)}
    (version / "model.json").write_bytes(replace(description, files=files).to_bytes())


def test_what_is_damaged_is_named_and_not_made_to_look_whole(folder):
    base = list_snapshots(folder)[-1]
    (table,) = (base / "tables").glob("uid-*")
    data = bytearray(table.read_bytes())
    data[-100] ^= 1  # in the index
    table.write_bytes(data)
    report = forget(folder, "--table", "uid", "--id", str(USER), code=1)
    assert [one["place"] for one in report["left"]] == [str(base)]
    assert "remove the folder" in report["left"][0]["reason"]
    left = {path for path in folder.rglob("*") if path.is_file() and USER.to_bytes(8, "little") in path.read_bytes()}
    assert left == {table}
    assert table.read_bytes() == data


def test_a_row_that_is_damaged_is_not_given_a_checksum_that_fits(folder):
    base = list_snapshots(folder)[-1]
    (table,) = (base / "tables").glob("uid-*")
    data = bytearray(table.read_bytes())
    data[30] ^= 1  # in the header, which nobody needs to find a row
    table.write_bytes(data)
    report = forget(folder, "--table", "uid", "--id", str(USER), code=1)
    assert [one["place"] for one in report["left"]] == [str(base)]
    with pytest.raises(CorruptFileError):
        check_chain([base])


def test_a_tombstone_in_a_delta_goes_too(tmp_path):
    state, folder = State(), tmp_path / "model"
    trackers = {name: table.track_changes() for name, table in state.tables.tables.items()}
    state.tables["uid"].assign(torch.tensor([USER, OTHER]), torch.ones(2, 4))
    base = state.freeze(trackers=trackers).write_snapshot(folder)
    state.tables["uid"].erase(torch.tensor([USER, OTHER]))
    state.step += 1
    delta = state.freeze(trackers=trackers).write_delta(base)
    assert read_erased(delta)["uid"].tolist().count(USER) == 1
    report = forget(folder, "--table", "uid", "--id", str(USER))
    assert {(one["place"], one["kind"]) for one in report["found"]} == {(str(base), "row"), (str(delta), "tombstone")}
    assert files_with(folder, USER) == [] and read_erased(delta)["uid"].tolist() == [OTHER]
    assert check_chain(chain_to(delta)) and not read_row(delta, "uid", OTHER).found


def test_wrong_questions_are_refused(folder, tmp_path):
    (tmp_path / "ids").write_text("seven")
    for flags, words in [
        (["--id", "1"], "say which table the ids are of"),
        (["--table", "uid"], "say which ids are to be forgotten"),
        (["--table", "nobody", "--id", "1"], "no table or feature 'nobody'; it has label"),
        (["--table", "uid", "--id", str(1 << 70)], "an id is a 64-bit integer"),
        (["--table", "uid", "--ids", str(tmp_path / "ids")], "one id per line, a 64-bit integer, got 'seven'"),
    ]:
        done = CliRunner().invoke(app, ["forget", str(folder), *flags])
        assert done.exit_code == 1 and words.replace("label", "") in str(done.exception), done.exception


def test_people_read_where_it_was_and_what_stays(folder):
    done = CliRunner().invoke(app, ["forget", str(folder), "--table", "page", "--id", str(RARE)])
    assert "1 of 1 ids were in" in done.output and "1 count in page" in done.output
    assert "a filter's cell has 12 bits" in done.output and "come back if they are trained on again" in done.output


MOMENTS = (
    (model_dir, "put_in_place"),
    (state_folder, "write_without"),
    (state_folder, "second_name"),
    (state_folder, "write_manifest"),
    (state_folder, "write_durably"),
    (versions, "put_in_place"),
    (versions, "write_durably"),
    (versions, "write_without"),
    (versions, "second_name"),
    (shutil, "rmtree"),
)


def killed_at(place, moment):
    """Forget USER in a process that is killed before the n-th change of a file; returns whether it had that many."""
    pid = os.fork()
    if pid == 0:
        native.set_num_threads(1)  # threads of the parent are not there after a fork
        left = itertools.count(moment, -1)

        def counted(call):
            def wrapper(*args, **kwargs):
                if next(left) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **kwargs)

            return wrapper

        for module, name in MOMENTS:
            setattr(module, name, counted(getattr(module, name)))
        forget_ids(place, {"uid": frozenset([USER])})
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


def check_killed(folder, moments, tmp_path):
    names = {path.name for path in states(folder)}
    has_other = {path.name: read_row(path, "uid", OTHER).found for path in states(folder)}
    answers = {base: predict(folder / base, OTHER) for base in ("exports", "spread")}
    for moment in moments:
        place = shutil.copytree(folder, tmp_path / str(moment))
        if not killed_at(place, moment):
            return
        assert {path.name for path in states(place)} == names
        for path in states(place):
            check_chain(chain_to(path))
            assert read_row(path, "uid", OTHER).found == has_other[path.name]
        for base, answer in answers.items():
            assert predict(place / base, OTHER) == answer
        forget(place, "--table", "uid", "--id", str(USER))
        assert files_with(place, USER) == []
        assert {path.name for path in states(place)} == names
        for path in states(place):
            check_chain(chain_to(path))
        shutil.rmtree(place)


def test_killed_at_some_moments_every_checkpoint_can_be_restored(folder, tmp_path):
    check_killed(folder, (9, 33, 70, 95), tmp_path)


@pytest.mark.services
def test_killed_at_any_moment_every_checkpoint_can_be_restored(folder, tmp_path):
    check_killed(folder, itertools.count(0, 4), tmp_path)


def test_a_file_system_that_cannot_exchange_folders(folder, monkeypatch):
    monkeypatch.setattr("monolith.checkpoint.format.exchange._exchange", lambda one, other: False)
    forget(folder, "--table", "uid", "--id", str(USER))
    assert files_with(folder, USER) == []
    assert all(check_chain(chain_to(path)) for path in states(folder))
    newest = list_snapshots(folder)[-1]
    num_deltas = len(list_deltas(folder))
    os.rename(newest, newest.with_name(newest.name + ".exchanged"))  # a crash in the moment without a name
    assert train(folder, steps=1).num_steps == 1
    assert newest.exists() and len(list_deltas(folder)) == num_deltas


@pytest.mark.parametrize("num_shards", [1, 3])
@pytest.mark.parametrize("num_rows", [1, 5, 20_000])
def test_a_table_file_without_some_ids_is_what_the_table_would_have_written(tmp_path, num_rows, num_shards):
    table = Table(TableConfig(name="uid", segments=(Segment(2, AdagradOptimizer(learning_rate=0.1)),)))
    draw = torch.Generator().manual_seed(num_rows)
    ids = torch.randint(-(1 << 63), (1 << 63) - 1, (num_rows,), generator=draw)
    table.assign(ids, torch.randn(num_rows, 2, generator=draw), time=7)
    before = table.save(tmp_path / "before", num_shards=num_shards)
    gone = {*ids[::7].tolist(), 12345}
    assert {one for path in before for one in ids_in(Path(path), gone)} == gone - {12345}
    table.erase(torch.tensor(sorted(gone)))
    expected = table.save(tmp_path / "expected", num_shards=num_shards)
    for path, wanted in zip(before, expected, strict=True):
        entry = write_without(Path(path), gone, tmp_path / "without")
        assert (tmp_path / "without").read_bytes() == Path(wanted).read_bytes()
        assert entry.bytes == Path(wanted).stat().st_size


def test_a_filter_forgets_one_id_and_few_others(tmp_path):
    counted = create_hash_filter(5000, 7, SlotOccurrenceThresholdConfig(default_occurrence_threshold=3))
    ids = torch.arange(4000) * 7919
    for _ in range(2):
        counted.should_be_filtered(ids)
    get, gone = counted.native_filter.get, ids[::400]
    before = [get(int(one)) for one in ids]
    assert counted.forget(gone).tolist() == gone.tolist()
    assert [get(int(one)) for one in gone] == [0] * len(gone)
    changed = sum(get(int(one)) != count for one, count in zip(ids, before, strict=True))
    assert len(gone) <= changed <= len(gone) + 5
    assert counted.forget(gone).tolist() == []
    assert get(int(gone[0])) == counted.native_filter.add(int(gone[0])) == 0  # counted from nothing again
