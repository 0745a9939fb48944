"""The specification's tests of synchronous training: its tasks on two ranks, the ends of data, and its hooks."""

import logging
import math

import pytest
import torch

import monolith as mono
from monolith.checkpoint import latest_state, list_snapshots
from monolith.data_service import DataWorker, DataWorkerConfig, Dispatcher, DispatcherConfig
from monolith.native_training.cpu_training import distributed_sync_train, get_req_time
from monolith.native_training.sync_training_hooks import EofAwareTask
from monolith.train.ranks import sync_hooks
from monolith.train.trained_model import TrainedModel
from tests.train.job.counting_job import counted, expected
from tests.train.ranks.original_tasks import (
    DISTRIBUTED,
    EVENTS,
    NUM_BATCHES,
    SERVED,
    CountingTask,
    EmbeddingUpdateTask,
    FeatureTask,
    FloatFeatureTask,
    NonFeatureTask,
    SequenceFeatureTask,
    count_served,
    served_events,
    steered_in_all_ways,
    train_all,
)
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import config_of


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder in which two ranks trained every task, and what they returned."""
    folder = tmp_path_factory.mktemp("original")
    with Ranks(2, train_all, folder) as ranks:
        return folder, ranks.results()


def model_of(folder, task):
    return TrainedModel(task, latest_state(folder))


def adagrad(steps):
    """Return a row after so many steps with a gradient of 1."""
    return -0.1 * sum(1 / math.sqrt(1 + step) for step in range(1, steps + 1))


def check_rows(folder, task, ids):
    rows = model_of(folder, task).tables["ids"].lookup(torch.arange(6))
    wanted = torch.zeros(6, 5)
    wanted[ids] = adagrad(NUM_BATCHES)
    torch.testing.assert_close(rows, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("name", "task"), [("feature", FeatureTask), ("float", FloatFeatureTask)])
def test_cpu_training_feature_and_float_feature(trained, name, task):
    folder, found = trained
    assert [one[name] for one in found] == [NUM_BATCHES] * 2
    check_rows(folder / name, task(), [1, 2, 3, 4])


def test_cpu_training_float_feature_predicts_from_its_floats(trained):
    folder, _ = trained
    estimator = mono.Estimator(FloatFeatureTask, config_of(folder / "float", enable_sync_training=False))
    assert {float(one["pred"]) for one in estimator.predict()} == {5.0}


def test_cpu_training_sequence_feature(trained):
    folder, found = trained
    assert [one["sequence"] for one in found] == [NUM_BATCHES] * 2
    check_rows(folder / "sequence", SequenceFeatureTask(), [1, 2])  # the rows of the first two
    estimator = mono.Estimator(SequenceFeatureTask, config_of(folder / "sequence", enable_sync_training=False))
    assert {float(one["pred"]) for one in estimator.predict()} == {10.0}


def test_cpu_training_non_feature(trained):
    folder, found = trained
    assert [one["non feature"] for one in found] == [NUM_BATCHES] * 2
    model = model_of(folder / "non feature", NonFeatureTask())
    assert model.model.weight.item() == 1 - 0.5**NUM_BATCHES  # half of the way to 1 with every step
    assert not model.tables.tables


def test_embedding_update(trained):
    folder, found = trained
    assert [one["embedding"] for one in found] == [10, 10]  # the task compares both before every step
    model = model_of(folder / "embedding", EmbeddingUpdateTask())
    rows = model.tables["ids"].lookup(torch.arange(5))
    torch.testing.assert_close(rows, model.model.embedding.weight.detach(), rtol=1e-6, atol=1e-7)
    assert rows[1:, 1:].abs().min() > 0.1  # they moved


@pytest.mark.parametrize("name", list(DISTRIBUTED))
def test_distributed_sync_train(trained, name):
    folder, found = trained
    assert [one[name] for one in found] == [NUM_BATCHES] * 2
    check_rows(folder / name, FeatureTask(), [1, 2, 3, 4])


def test_ranks_end_with_their_data(trained):
    folder, found = trained
    assert [one["end"] for one in found] == [(3, 6), (3, 6)]
    config = config_of(folder / "end", enable_sync_training=False)
    assert mono.Estimator(CountingTask(), config).get_variable_value("global_step") == 6


def test_rank_0_writes_summaries_as_often_as_the_environment_says(trained):
    folder, _ = trained
    event_files = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    (path,) = folder.glob("end/**/*tfevents*")  # no other rank writes any, and no other run was asked to
    assert [one.step for one in event_files.EventAccumulator(str(path)).Reload().Scalars("loss")] == [2, 3]
    assert len(list(folder.glob("**/*tfevents*"))) == 1


def test_an_interval_that_is_no_number_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("MONOLITH_ROOT_LOG_INTERVAL", "often")
    with pytest.raises(ValueError, match="MONOLITH_ROOT_LOG_INTERVAL must be a number of steps, got 'often'"):
        distributed_sync_train(config_of(tmp_path), CountingTask())


def test_the_rows_of_a_rank_are_counted_in_the_log(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="monolith.train.ranks.sync_hooks"):
        distributed_sync_train(config_of(tmp_path), CountingTask(column="1"))
    assert "rows on this rank: 1 1" in caplog.text


@pytest.mark.parametrize("column", ["number", "1"], ids=["basic", "dict"])
def test_eof_aware_task(tmp_path, column):
    task = EofAwareTask(CountingTask(column=column), use_dataservice=True)
    estimator = mono.Estimator(task, config_of(tmp_path))
    result = estimator.train()
    assert (result.num_steps, result.ending) == (3, "the data ended")
    assert estimator.get_variable_value("global_step") == 6
    # What is saved is the task's: a new one goes on from it.
    again = mono.Estimator(CountingTask(column=column), config_of(tmp_path))
    assert again.get_variable_value("global_step") == 6


STEERED = {
    ("dump", "model"): ("dump_5", ""),
    ("stop", "function"): ("stop_10", ""),
    ("online", "function"): ("ONLINE", ""),
    ("offline", "function"): ("", ""),
    ("limit", "model"): ("limit_req_time", "9"),
}
"""The file that is in the folder of the model, by case and door."""


@pytest.fixture(scope="module")
def steering(tmp_path_factory):
    """Return the folder in which files steered ranks, and what each rank returned."""
    folder = tmp_path_factory.mktemp("steered")
    with Ranks(2, steered_in_all_ways, folder, STEERED) as ranks:
        return folder, ranks.results()


def saved(folder):
    return [int(path.name.rpartition("-")[2]) for path in list_snapshots(folder)]


def test_a_dump_file_saves_at_its_step(steering):
    folder, found = steering
    assert {one["dump", "model"][0] for one in found} == {20}
    steps = saved(folder / "dump-model")
    assert 5 in steps
    assert steps[-1] == 20


def test_a_stop_file_stops_all_ranks_at_its_step_and_saves(steering):
    folder, found = steering
    assert {one["stop", "function"][0] for one in found} == {10}
    assert saved(folder / "stop-function")[-1] == 10


def test_the_timer_runs_only_while_there_is_a_file_online(steering):
    folder, found = steering
    assert {one[case, "function"][0] for one in found for case in ("online", "offline")} == {20}
    assert saved(folder / "online-function") == [0, 3, 6, 9, 12, 15, 18, 20]
    assert saved(folder / "offline-function") == [0, 20]


def test_a_limit_of_the_request_time_stops_all_ranks_and_saves(steering):
    folder, found = steering
    # It looks at every fourth step, and the batch of step n was asked for at n - 1: 12 is the first at 9 or later.
    assert [one["limit", "model"] for one in found] == [(12, 11)] * 2
    assert saved(folder / "limit-model")[-1] == 12


def test_get_req_time_is_that_of_the_first_event():
    assert get_req_time({"req_time": torch.tensor([7, 9])}) == 7
    assert get_req_time({"label": torch.tensor([7.0])}) is None


def test_the_hours_in_which_dumps_are_written():
    assert list(sync_hooks.DUMP_HOURS) == [18, 19, 20]


def test_ranks_share_one_data_service(tmp_path):
    config = DispatcherConfig(
        input=f"{served_events.__module__}:served_events",
        num_splits=6,
        state_path=str(tmp_path / "service"),
        address="127.0.0.1:0",
    )
    with Dispatcher(config) as dispatcher, DataWorker(DataWorkerConfig(dispatcher=dispatcher.address)):
        with Ranks(2, count_served, tmp_path / "model", dispatcher.address) as ranks:
            assert ranks.results() == [(SERVED // EVENTS // 2, "the data ended")] * 2
    assert counted(tmp_path / "model")[0] == expected(SERVED)  # every event once
