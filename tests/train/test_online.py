"""Online training: resumes exactly, and what servers have is what the trainer has."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from monolith.checkpoint import latest_state, load_snapshot
from monolith.checkpoint.format.manifest import read_manifest
from monolith.data import MOVIE_SCHEMA, EventLogSource, EventLogWriter, MovieEvents
from monolith.delta.receiver import DeltaReceiver
from monolith.errors import FencedError, ModelDirInUseError
from monolith.export import load_export, newest_export, trace_model
from monolith.export.versions import complete_versions
from monolith.hooks import Hook
from monolith.model import make_plan, make_tables
from monolith.model.zoo.movie_ranking import MovieRanking
from monolith.train.config import RunConfig
from monolith.train.live import exporter
from monolith.train.live.live_config import LiveConfig
from monolith.train.live.step_gate import StepGate
from monolith.train.loop import RunResult
from monolith.train.online import run_online
from monolith.train.state import TrainState
from monolith.wire import SharedSecret
from tests.patience import PATIENCE_SECONDS

BATCH = 64


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("online") / "events"
    with EventLogWriter(path, MOVIE_SCHEMA) as writer:
        writer.append(MovieEvents(3, users=200, movies=50).events(0, 40 * BATCH))
    return path


@pytest.fixture(autouse=True)
def trace_once(monkeypatch):
    """The graph is the same for all weights; tracing takes seconds."""
    monkeypatch.setattr(exporter, "trace_model", lambda model, plan, schema: traced_graph())


@cache
def traced_graph():
    with torch.random.fork_rng():  # the run during which this is first asked for must not notice
        model = MovieRanking()
    return trace_model(model, make_plan(model, MOVIE_SCHEMA), MOVIE_SCHEMA)


def train(log: Path, folder: Path, max_steps: int, **options) -> RunResult:
    config = options.pop("config", RunConfig())
    saves = {} if config.save_checkpoints_steps else {"save_checkpoints_secs": 1000.0}
    exports = {
        "export_every_seconds": config.export_every_seconds if "export_every_seconds" in config.changed() else 1e3
    }
    return run_online(
        MovieRanking,
        log_path=log,
        model_dir=folder / "model",
        export_base=folder / "export",
        name="movie",
        batch_size=BATCH,
        max_steps=max_steps,
        config=replace(config, **saves, **exports),
        **options,
    )


def content(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], dict[str, int]]:
    """Dense tensors, rows of all ids by table, and the stream position of the newest snapshot or delta."""
    plan = make_plan(MovieRanking(), MOVIE_SCHEMA)
    tables = make_tables(plan)
    snapshot = load_snapshot(latest_state(folder / "model"), plan=plan, tables=tables)
    rows = {name: table.lookup(torch.arange(400)) for name, table in tables.tables.items()}
    return snapshot.dense, rows, {"0": snapshot.stream["0"]}


class Killed(BaseException):
    """Ends a run at once."""


class Crash(Hook):
    """Ends a run as a crash would: no snapshot is written."""

    def __init__(self, after_step: int) -> None:
        self.after_step = after_step

    def after_run(self, context, values):
        if values.step == self.after_step:
            raise Killed


def test_a_run_that_crashed_ends_bit_for_bit_like_one_that_did_not(log, tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    expected = train(log, straight, 30)
    train(log, broken, 9)
    with pytest.raises(Killed):
        train(log, broken, 30, hooks=[Crash(after_step=17)])
    result = train(log, broken, 30)
    assert result.loss == expected.loss
    for left, right in zip(content(straight), content(broken), strict=True):
        assert left.keys() == right.keys()
        for name, value in left.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(right[name])), name
    assert content(broken)[2] == {"0": 30 * BATCH}


def test_a_server_ends_up_with_what_the_trainer_has(log, tmp_path):
    folder = tmp_path / "job"
    train(log, folder, 5)
    served = load_export(newest_export(folder / "export"))
    receiver = DeltaReceiver(served, plan_hash=served.plan_hash, generation=served.generation, sequence=served.sequence)
    with receiver.listen("127.0.0.1:0", secret=SharedSecret.of_folder(folder / "export")) as listener:
        train(log, folder, 40, sync_targets=[str(listener.address)])
    assert receiver.freshness.watermark["event_seq"] == 40 * BATCH - 1
    # The version of a third run, which does not train, is the trainer's last state.
    train(log, folder, 40)
    trained = load_export(newest_export(folder / "export"))
    events = MovieEvents(3, users=200, movies=50).events(0, 500)
    columns = {name: events[name] for name in ("uid", "mov")}
    (ours,), (theirs,) = trained.predict(columns).values(), served.predict(columns).values()
    assert np.ptp(ours) > 0.01
    np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-6)


class SetToZero(Hook):
    """Lets rows become zeros after a step, as a sparse optimizer would."""

    def __init__(self, after_step: int, ids: list[int]) -> None:
        self.after_step, self.ids = after_step, torch.tensor(ids)

    def after_run(self, context, values):
        if context.global_step == self.after_step:
            tables = context.tables.tables
            zeros = {name: torch.zeros(len(self.ids), table.dim) for name, table in tables.items()}
            context.tables.assign({name: (self.ids, rows) for name, rows in zeros.items()})


@pytest.mark.parametrize("skips", [True, False])
def test_servers_are_spared_rows_of_zeros_where_settings_say_so(log, tmp_path, skips):
    config = RunConfig(skip_zero_embedding_when_serving=skips)
    folder, first, second = tmp_path / "job", [1, 2], [3, 4, 5, 6]
    train(log, folder, 5, config=config, hooks=[SetToZero(5, first)])
    train(log, folder, 5, config=config)  # exports what the run before has trained
    served = load_export(newest_export(folder / "export"))
    for table in served.tables.tables.values():
        assert table.contains(torch.tensor(first)).tolist() == [not skips] * 2
    receiver = DeltaReceiver(served, plan_hash=served.plan_hash, generation=served.generation, sequence=served.sequence)
    with receiver.listen("127.0.0.1:0", secret=SharedSecret.of_folder(folder / "export")) as listener:
        options = {"config": config, "sync_targets": [str(listener.address)]}
        train(log, folder, 20, hooks=[SetToZero(20, second)], **options)
    assert receiver.freshness.watermark["event_seq"] == 20 * BATCH - 1
    _, trained, _ = content(folder)
    for name, table in served.tables.tables.items():
        ids = torch.arange(400)
        torch.testing.assert_close(table.lookup(ids), trained[name], rtol=0, atol=0)
        assert trained[name][torch.tensor([1, 2])].any(dim=1).all()  # trained again, so they are back
        assert not table.lookup(torch.tensor(second)).any()
        assert table.contains(torch.tensor([1, *second])).tolist() == [True] + [not skips] * 4


def test_a_trainer_that_was_replaced_stops(log, tmp_path):
    folder = tmp_path / "job"
    train(log, folder, 1)
    served = load_export(newest_export(folder / "export"))
    receiver = DeltaReceiver(served, plan_hash=served.plan_hash, generation=1000, sequence=0)

    class WaitForRefusal(Hook):
        def before_run(self, context):
            for thread in threading.enumerate():
                if thread.name.startswith("delta "):
                    thread.join(PATIENCE_SECONDS)

    with (
        receiver.listen("127.0.0.1:0", secret=SharedSecret.of_folder(folder / "export")) as listener,
        pytest.raises(FencedError),
    ):
        train(log, folder, 3, sync_targets=[str(listener.address)], hooks=[WaitForRefusal()])


def test_versions_are_written_while_training_goes_on_and_old_ones_go(log, tmp_path, monkeypatch):
    written, write_export = threading.Semaphore(0), exporter.write_export

    def write_and_tell(*arguments, **options):
        path = write_export(*arguments, **options)
        written.release()
        return path

    class AwaitVersions(Hook):
        """Two more than the first one, by the 20th step."""

        def before_run(self, context):
            if context.global_step in (0, 10, 20):
                assert written.acquire(timeout=PATIENCE_SECONDS)

    monkeypatch.setattr(exporter, "write_export", write_and_tell)
    config = RunConfig(export_every_seconds=0.01, exports_max_to_keep=2, status_path=str(tmp_path / "status.json"))
    train(log, tmp_path, 40, hooks=[AwaitVersions()], config=config)
    versions = complete_versions(tmp_path / "export")
    assert len(versions) == 2
    assert versions[-1] >= 3
    names = {path.name for path in (tmp_path / "export").iterdir()}
    assert names == {*(str(version) for version in versions), "ExportSaverListenerState", "shared.secret"}
    status = json.loads((tmp_path / "status.json").read_text())
    assert (status["step"], status["events"], status["stream"]) == (40, 40 * BATCH, {"0": 40 * BATCH})
    assert status["rows"]["uid"] > 100
    newest = MovieEvents(3, users=200, movies=50).events(40 * BATCH - 1, 1)["req_time"]
    assert (status["event_time"], status["times_rejected"]) == (newest.item(), 0)


def test_a_version_bears_the_sequence_from_before_its_weights_were_read(log, tmp_path):
    """A delta that is sent meanwhile may have weights that the version lacks: servers must take it."""

    class DeltaMeanwhile(StepGate):
        @contextmanager
        def between_steps(self):
            with super().between_steps():
                yield
            sent[0] += 1

    sent, model = [41], MovieRanking()
    state = TrainState(model, EventLogSource(log, batch_size=BATCH))
    config = LiveConfig(export_base=tmp_path, name="movie")
    versions = exporter.Exporter(state, config, gate=DeltaMeanwhile(), sequence=lambda: sent[0])
    assert load_export(versions.write()).sequence == 41
    assert load_export(versions.write()).sequence == 42


def test_two_trainers_do_not_share_a_folder(log, tmp_path):
    class TrainAgain(Hook):
        def before_run(self, context):
            with pytest.raises(ModelDirInUseError):
                train(log, tmp_path, 1)

    train(log, tmp_path, 1, hooks=[TrainAgain()])


def test_settings_that_could_only_fail_later_are_refused(log, tmp_path):
    with pytest.raises(ValueError, match="export_seconds must be positive, got 0"):
        train(log, tmp_path, 1, config=RunConfig(export_every_seconds=0.0))
    assert not (tmp_path / "model").exists()


def test_the_hooks_of_settings_watch_an_online_run_too(log, tmp_path):
    class Begun(Hook):
        begun = False

        def begin(self):
            self.begun = True

    hook = Begun()
    config = RunConfig(save_summary_steps=2, enable_controller=True, enable_fused_layout=True)
    train(log, tmp_path, 3, config=config, hooks=[hook])
    assert hook.begun
    assert len(list((tmp_path / "model").glob("events.out*"))) == 1
    tags = EventAccumulator(str(tmp_path / "model"))
    tags.Reload()
    assert [event.step for event in tags.Scalars("loss")] == [2, 3]


def test_an_online_run_writes_deltas_between_its_snapshots(log, tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    train(log, straight, 12)
    with pytest.raises(Killed):
        train(log, broken, 12, config=RunConfig(delta_every_steps=3), hooks=[Crash(after_step=7)])
    names = sorted(path.name for path in (broken / "model").glob("model.ckpt-*"))
    assert names == ["model.ckpt-0", "model.ckpt-3", "model.ckpt-3.delta-1"]  # changes are tracked from the first on
    latest = latest_state(broken / "model")
    assert (latest.name, read_manifest(latest).step) == ("model.ckpt-3.delta-1", 6)
    train(log, broken, 12, config=RunConfig(delta_every_steps=3))
    for left, right in zip(content(straight), content(broken), strict=True):
        assert left.keys() == right.keys()
        for name, value in left.items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(right[name])), name


def test_an_online_run_saves_as_its_settings_say_where_its_argument_says(log, tmp_path):
    train(log, tmp_path, 3, config=RunConfig(save_checkpoints_steps=2, model_dir=tmp_path / "elsewhere"))
    assert sorted(path.name for path in (tmp_path / "model").glob("model.ckpt-*")) == [
        f"model.ckpt-{step}" for step in (0, 2, 3)
    ]
    assert not (tmp_path / "elsewhere").exists()


class Steps(Hook):
    """Notes the steps that a run takes."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def after_run(self, context, values):
        self.seen.append(values.step)


def same_content(left: Path, right: Path) -> bool:
    return all(
        ours.keys() == theirs.keys()
        and all(torch.equal(torch.as_tensor(ours[name]), torch.as_tensor(theirs[name])) for name in ours)
        for ours, theirs in zip(content(left), content(right), strict=True)
    )


def test_an_online_run_goes_on_from_the_copy_on_another_machine(log, tmp_path):
    config = RunConfig(mirror_dir=f"file://{tmp_path}/copies", delta_every_steps=3)
    expected = train(log, tmp_path / "straight", 12)
    with pytest.raises(Killed):
        train(log, tmp_path / "first", 12, config=config, hooks=[Crash(after_step=7)])
    assert read_manifest(latest_state(tmp_path / "copies")).step == 6
    steps = Steps()
    result = train(log, tmp_path / "second", 12, config=config, hooks=[steps])
    assert steps.seen == list(range(6, 12))
    assert (result.global_step, result.loss) == (12, expected.loss)
    assert same_content(tmp_path / "straight", tmp_path / "second")


def test_an_online_run_goes_back_to_a_named_snapshot_once(log, tmp_path):
    expected = train(log, tmp_path / "straight", 8)
    for step in (3, 6):
        train(log, tmp_path / "job", step)
    config = RunConfig(restore_ckpt="model.ckpt-3")
    train(log, tmp_path / "job", 4, config=config)
    names = {path.name for path in (tmp_path / "job" / "model").glob("model.ckpt-*")}
    assert {"model.ckpt-4", "model.ckpt-6.rolled-back"} <= names
    assert train(log, tmp_path / "job", 8, config=config).loss == expected.loss
    assert "model.ckpt-4" in {path.name for path in (tmp_path / "job" / "model").iterdir()}  # nothing was set aside


def test_an_online_run_starts_from_another_model_at_the_begin_of_its_log(log, tmp_path):
    train(log, tmp_path / "old", 5)
    before = content(tmp_path / "old")
    config = RunConfig(restore_dir=str(tmp_path / "old" / "model"))
    assert train(log, tmp_path / "new", 5, config=config).global_step == 5  # takes no step, only starts
    dense, rows, stream = content(tmp_path / "new")
    assert stream == {"0": 0} != before[2]
    for ours, theirs in ((dense, before[0]), (rows, before[1])):
        kept = {name for name in ours if not name.startswith("metrics/")}
        assert all(torch.equal(ours[name], theirs[name]) for name in kept) and len(kept) > 1
    train(log, tmp_path / "new", 7, config=config)
    assert content(tmp_path / "new")[2] == {"0": 2 * BATCH}


def test_an_online_run_starts_from_a_checkpoint_in_an_object_store(log, tmp_path):
    train(log, tmp_path / "old", 4, config=RunConfig(delta_every_steps=2))
    before = content(tmp_path / "old")
    config = RunConfig(restore_dir=f"file://{tmp_path}/old/model")
    assert train(log, tmp_path / "new", 4, config=config).global_step == 4
    _, rows, stream = content(tmp_path / "new")
    assert stream == {"0": 0}
    assert all(torch.equal(rows[name], value) for name, value in before[1].items())


@pytest.mark.parametrize("keeps_step", [False, True])
def test_an_online_run_begins_once_with_new_weights_and_all_rows(log, tmp_path, keeps_step):
    train(log, tmp_path, 6)
    trained, rows, stream = content(tmp_path)
    torch.manual_seed(RunConfig().seed)
    new = {f"model/{name}": value for name, value in MovieRanking().state_dict().items()}
    assert not all(torch.equal(trained[name], value) for name, value in new.items())
    config, first = RunConfig(clear_nn=True, continue_training=keeps_step), 6 if keeps_step else 0
    assert train(log, tmp_path, first, config=config).global_step == first
    cleared, kept, position = content(tmp_path)
    assert all(torch.equal(cleared[name], value) for name, value in new.items())
    assert all(torch.equal(kept[name], value) for name, value in rows.items())
    assert position == stream == {"0": 6 * BATCH}
    assert train(log, tmp_path, first + 2, config=config).global_step == first + 2
    assert train(log, tmp_path, first + 2, config=config).global_step == first + 2  # it is not cleared again


def test_an_online_run_finds_renamed_weights_by_their_alias(log, tmp_path):
    train(log, tmp_path, 2)
    name = next(iter(MovieRanking().state_dict()))
    with pytest.raises(ValueError, match="the snapshot has no 'gone'"):
        train(log, tmp_path, 3, config=RunConfig(reload_alias_map={name: "gone"}))


def test_an_online_run_refuses_what_one_process_cannot_do(log, tmp_path):
    with pytest.raises(NotImplementedError, match="num_ps=2"):
        train(log, tmp_path, 1, config=RunConfig(num_ps=2, is_local=True))
    assert list(tmp_path.iterdir()) == []
