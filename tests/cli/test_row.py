"""`monolith row`: what a snapshot knows of an id."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import monolith as mono
from monolith.checkpoint.inspect.row_report import read_row
from monolith.cli.app import app
from monolith.data import EventLogWriter
from monolith.data.synthetic import MOVIE_SCHEMA
from monolith.embedding import AdagradOptimizer
from monolith.features import hash_bytes
from monolith.protos.embedding_hash_table_pb2 import EntryDump
from tests.checkpoint.small_state import State, rows_of
from tests.model.movie_model import MovieRanking
from tests.train.recorder import Recorder

DAY = 86400
NOW = 1_700_000_000


class Movies(MovieRanking):
    """Users are forgotten after a day; a movie gets a row at its fourth sighting."""

    def __init__(self, params):
        super().__init__(params)
        self.feature_columns.clear()
        rule = AdagradOptimizer(learning_rate=0.1, initial_accumulator_value=0.25)
        self.create_embedding_feature_column("uid", expire_time=1, optimizer=rule)
        self.create_embedding_feature_column("mov", occurrence_threshold=3, filter_capacity=10_000)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Movie 7 was seen twice, movie 8 often; users 1 and 2 two days before users 4 to 9."""
    folder = tmp_path_factory.mktemp("row")
    uid = np.array([1, 2] * 4 + [3, 4, 5, 6, 7, 8, 9, 9])
    columns = {
        "uid": uid,
        "mov": np.array([8] * 6 + [7, 9] + [8] * 7 + [7]),
        "label": (uid % 2).astype(np.float32),
        # User 3 comes in between: the clock does not follow a single jump of more than a day.
        "req_time": np.array([NOW - 2 * DAY] * 8 + [NOW - DAY] + [NOW] * 7),
    }
    with EventLogWriter(folder / "log", MOVIE_SCHEMA) as writer:
        writer.append({name: columns.get(name, np.arange(16)) for name in MOVIE_SCHEMA.types})
    config = mono.RunConfig(model_dir=folder / "model", log_step_count_steps=0, evict_every_seconds=0)
    rows = Recorder()
    mono.Estimator(Movies, config, params={"log": str(folder / "log"), "batch_size": 8}).train(hooks=[rows])
    return folder / "model", rows.rows


def test_values_by_slice_state_and_time(trained):
    model_dir, rows = trained
    report = read_row(model_dir, "mov", 8)
    assert report.found
    assert [one.name for one in report.slices] == ["vec", "bias"]
    assert [value for one in report.slices for value in one.values] == rows["mov"][8]
    assert [len(one.state["norm"]) for one in report.slices] == [8, 1]
    assert report.last_seen == NOW
    user = read_row(model_dir, "uid", 3)
    assert user.slices[0].optimizer == "adagrad"
    # Adagrad's sum of squares began at what the model said.
    assert all(value >= 0.25 for value in user.slices[0].state["norm"])


def test_why_there_is_no_row(trained):
    model_dir, _ = trained
    (below,) = read_row(model_dir, "mov", 7).notes
    assert "it was seen 2 times, and gets a row at sighting 4 (occurrence_threshold=3)" in below
    (never,) = read_row(model_dir, "mov", 123).notes
    assert "it was never seen" in never
    (unknown,) = read_row(model_dir, "uid", -123).notes
    assert "it was never trained on, or its row expired, 1 days after its last update" in unknown


def test_a_row_that_has_expired_is_there_until_it_is_removed(trained):
    model_dir, _ = trained
    old = read_row(model_dir, "uid", 1)
    assert old.found
    assert old.last_seen == NOW - 2 * DAY
    assert old.notes == ["it has expired (expire_time=1 days): the next eviction removes it"]
    assert read_row(model_dir, "uid", 5).notes == [
        "it expires 1.0 days after the newest event, unless it is seen again"
    ]


def test_a_single_snapshot_can_be_asked(trained):
    model_dir, _ = trained
    assert not read_row(model_dir / "model.ckpt-0", "uid", 5).found


@pytest.mark.parametrize(
    ("table", "id_", "error"),
    [
        ("city", 1, "has no table or feature 'city'; it has uid, mov"),
        ("uid", 2**63, "an id is a 64-bit integer"),
    ],
)
def test_what_is_not_there_is_named(trained, table, id_, error):
    with pytest.raises(ValueError, match=error):
        read_row(trained[0], table, id_)


def test_a_folder_without_snapshots_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no snapshot in"):
        read_row(tmp_path, "uid", 1)


def test_the_command_prints_it(trained):
    model_dir, rows = trained
    found = CliRunner().invoke(app, ["row", str(model_dir), "uid", "5"])
    assert found.exit_code == 0, found.output
    assert "adagrad" in found.output
    assert "2023-11-14 22:13:20 UTC" in found.output
    missing = CliRunner().invoke(app, ["row", str(model_dir), "mov", "-5"])
    assert "reads as zero" in missing.output
    as_json = json.loads(CliRunner().invoke(app, ["row", str(model_dir), "uid", "5", "--json"]).output)
    assert torch.tensor(as_json["slices"][0]["values"]).tolist() == rows["uid"][5]


def test_deltas_count_for_the_newest_and_for_each_alone(tmp_path):
    state = State()
    state.train(4)
    trackers = state.track()
    links, rows = [state.freeze(trackers=trackers).write_snapshot(tmp_path)], [rows_of(state.tables)[0]["uid"]]
    for _ in range(2):
        state.train(1, num_ids=10)
        links.append(state.freeze(trackers=trackers).write_delta(links[-1]))
        rows.append(rows_of(state.tables)[0]["uid"])
    gone = min(rows[0].keys() - rows[2].keys())
    changed = min(one for one in rows[1].keys() & rows[2].keys() if rows[1][one] != rows[2][one])
    old = min(one for one in rows[0].keys() & rows[2].keys() if rows[0][one] == rows[2][one])  # in no delta
    for path, wanted in [*zip(links, rows, strict=True), (tmp_path, rows[2])]:
        for one in (gone, changed, old):
            report = read_row(path, "uid", one)
            assert report.found == (one in wanted)
            if report.found:
                assert report.slices[0].values == list(EntryDump.FromString(wanted[one]).num)
    assert read_row(tmp_path, "uid", old).snapshot == links[2]


@pytest.fixture(scope="module")
def of_texts(tmp_path_factory):
    """A model whose movies are texts, and whose run kept them."""
    folder = tmp_path_factory.mktemp("texts")
    events = {"uid": [1, 2, 3], "mov": ["Heat", "Up", "196"], "label": [1.0, 0.0, 1.0]}
    columns = {name: 6 * values for name, values in events.items()}
    source = mono.data.arrays(columns, schema=mono.data.Schema.of(uid="int64", mov="hash", label="float32"))

    class Texts(MovieRanking):
        def input_fn(self, mode):
            return mono.data.arrays(columns, batch_size=3, schema=source.schema)

    config = mono.RunConfig(model_dir=folder / "model", log_step_count_steps=0, keep_strings=True)
    mono.Estimator(Texts, config, params={"log": "", "batch_size": 4}).train()
    return folder / "model"


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)


def test_text_stands_for_its_id_where_the_column_is_of_type_hash(of_texts):
    report = read_row(of_texts, "mov", "Heat")
    assert report.found and report.id == hash_bytes(b"Heat") and report.text == "Heat"
    assert read_row(of_texts, "mov", "196").id == hash_bytes(b"196")
    by_number = read_row(of_texts, "mov", report.id)
    assert by_number == report
    assert not read_row(of_texts, "mov", "Cars").found
    with pytest.raises(ValueError, match="ids of table uid are numbers, got 'Heat'; text is for columns of type hash"):
        read_row(of_texts, "uid", "Heat")
    shown = run("row", of_texts, "mov", "Heat").stdout
    assert shown.startswith(f"'Heat' (id {report.id}) in table mov")
    (up,) = {json.loads(run("row", of_texts, "mov", hash_bytes(b"Up"), "--id", "--json").stdout)["text"]}
    assert up == "Up"


def test_rows_are_exported_with_their_texts(of_texts, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("ckpt", "export-parquet", of_texts, tmp_path / "rows").exit_code == 0
    rows = parquet.read_table(tmp_path / "rows" / "mov.parquet").to_pylist()
    assert {row["text"]: row["id"] for row in rows} == {
        text: hash_bytes(text.encode()) for text in ("Heat", "Up", "196")
    }
    assert "text" not in parquet.read_table(tmp_path / "rows" / "uid.parquet").column_names
