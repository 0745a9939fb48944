"""A live run takes its events from any source: what servers have in the end is what was trained on."""

from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import monolith as mono
from monolith.data import JoinConfig, TFRecordWriter
from monolith.data_service import DataWorker, DataWorkerConfig, Dispatcher, DispatcherConfig
from monolith.delta import DeltaReceiver
from monolith.embedding import SgdOptimizer, ZerosInitializer
from monolith.export import load_export, newest_export
from monolith.protos.tf_example_pb2 import Example
from monolith.train.config import RunnerConfig
from monolith.train.live import exporter
from monolith.wire import SharedSecret
from tests.wire.conftest import certificates  # noqa: F401  a fixture

NUM_EVENTS, BATCH = 48, 4
USERS = torch.arange(NUM_EVENTS)


class Counting(mono.MonolithModel):
    """Every event adds exactly 1 to the row of its user; `params` makes the source."""

    def __init__(self, params):
        super().__init__(params)
        one = SgdOptimizer(learning_rate=1.0)
        self.create_embedding_feature_column("uid", optimizer=one, initializer=ZerosInitializer())

    def input_fn(self, mode):
        return self.params()

    def model_fn(self, features, mode):
        (count,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        pred = count.squeeze(1)
        loss = None if mode == mono.PREDICT else -pred.sum()
        return mono.EstimatorSpec(label=features.get("label"), pred=pred, loss=loss, classification=False)


@pytest.fixture(autouse=True)
def trace_once(monkeypatch):
    """The graph is the same in all runs of a test; tracing takes seconds."""
    graphs, trace = {}, exporter.trace_model

    def trace_model(model, plan, schema):
        if schema not in graphs:
            graphs[schema] = trace(model, plan, schema)
        return graphs[schema]

    monkeypatch.setattr(exporter, "trace_model", trace_model)


def labels() -> list[float]:
    return [float(user % 2) for user in USERS.tolist()]


def tfrecords():
    return mono.data.tfrecord(batch_size=BATCH).parse(uid="int64", label="float32")


def csv_files():
    return mono.data.csv(batch_size=BATCH, uid="int64", label="float32")


def joined():
    """Two impressions in three have an action."""
    shown = {"uid": USERS, "req_id": USERS, "req_time": 1000 + USERS, "kind": 0 * USERS, "action": 0 * USERS}
    clicks = {name: values[USERS % 3 > 0] for name, values in shown.items()}
    clicks = {**clicks, "kind": clicks["kind"] + 1, "action": clicks["action"] + 1}
    stream = {name: torch.cat([shown[name], clicks[name]]) for name in shown}
    order = stream["req_time"].argsort(stable=True)
    config = JoinConfig(key=("req_id",), window_seconds=16, at_end="flush")
    return mono.data.arrays({name: values[order] for name, values in stream.items()}, batch_size=BATCH).join(config)


def read_by_workers():
    return mono.data.arrays({"uid": USERS, "label": labels()}, batch_size=BATCH)


def nothing():
    raise AssertionError("batches come from the data service")


def estimator(folder: Path, make_source, *, targets=(), **settings):
    config = RunnerConfig(
        model_dir=folder / "model",
        export_base=str(folder / "export"),
        base_name="counting",
        sync_targets=list(targets),
        log_step_count_steps=0,
        save_summary_steps=0,
        **settings,
    )
    return mono.Estimator(Counting, config, params=make_source)


def check_live(folder: Path, make_source, **settings) -> None:
    """Train a step, let a server begin with its version, train on: the server has every row, and so has an export."""
    estimator(folder, make_source, **settings).train(steps=1)
    served = load_export(newest_export(folder / "export"))
    assert len(served.tables["uid"]) == 0
    receiver = DeltaReceiver(served, plan_hash=served.plan_hash, generation=served.generation, sequence=served.sequence)
    with receiver.listen("127.0.0.1:0", secret=SharedSecret.of_folder(folder / "export")) as listener:
        estimator(folder, make_source, targets=[str(listener.address)], **settings).train()
    estimator(folder, make_source, **settings).train()  # of no step: its version is the last state
    exported = load_export(newest_export(folder / "export"))
    for model in (served, exported):
        assert model.tables["uid"].lookup(USERS).squeeze(1).tolist() == [1.0] * NUM_EVENTS
        assert len(model.tables["uid"]) == NUM_EVENTS


def test_tfrecord_files(tmp_path):
    with TFRecordWriter(str(tmp_path / "clicks.tfrecord")) as writer:
        for user, label in zip(USERS.tolist(), labels(), strict=True):
            example = Example()
            example.features.feature["uid"].int64_list.value.append(user)
            example.features.feature["label"].float_list.value.append(label)
            writer.write(example.SerializeToString())
    check_live(tmp_path, tfrecords, input_path=str(tmp_path), wildcard="*.tfrecord")


def test_csv_files(tmp_path):
    lines = [f"{user},{label}" for user, label in zip(USERS.tolist(), labels(), strict=True)]
    (tmp_path / "clicks.csv").write_text("\n".join(["uid,label", *lines]) + "\n")
    check_live(tmp_path, csv_files, input_path=str(tmp_path), wildcard="*.csv")


def test_a_joined_stream(tmp_path):
    check_live(tmp_path, joined)


@contextmanager
def data_service(folder, tls=None):
    """Yield the settings that lead to a running data service."""
    config = DispatcherConfig(
        input=f"{__name__}:read_by_workers",
        num_splits=3,  # of one partition, which the trainer gets in turns
        state_path=str(folder / "dispatcher"),
        address="127.0.0.1:0",
        tls=tls,
    )
    with Dispatcher(config) as dispatcher, DataWorker(DataWorkerConfig(dispatcher=dispatcher.address, tls=tls)):
        yield {"use_dataservice": True, "data_service_dispatcher": dispatcher.address}


def test_a_data_service(tmp_path):
    with data_service(tmp_path) as settings:
        check_live(tmp_path, nothing, **settings)
        version = estimator(tmp_path, nothing, **settings).export_saved_model(export_base=tmp_path / "more")
        assert len(load_export(version).tables["uid"]) == NUM_EVENTS


def test_a_data_service_with_tls_takes_the_certificate_of_the_settings(tmp_path, certificates):  # noqa: F811
    mine, ours = certificates["server"], certificates["client"]
    with data_service(tmp_path, mine) as settings:
        paths = {"tls_cert": ours.cert_path, "tls_key": ours.key_path, "tls_ca": ours.ca_path}
        config = RunnerConfig(model_dir=tmp_path / "model", log_step_count_steps=0, **settings, **paths)
        assert mono.Estimator(Counting, config, params=nothing).train(steps=2).global_step == 2
