"""serving_input_receiver_fn: the columns of requests are those that the user names, whatever training reads."""

import pytest
import torch

import monolith as mono
from monolith.data import Schema
from monolith.export import load_export, newest_export
from monolith.features import hash_bytes
from monolith.model import ServingInputReceiver
from monolith.model.zoo.ffm import FFMParams
from monolith.native_training.cpu_training import CpuTraining, CpuTrainingConfig, create_exporter, local_train
from tests.export.two_heads import TwoHeads
from tests.model.test_native_task import Summing

TEXTS = Schema.of(mov="int64", uid="hash", unread="float32")


class Texts(TwoHeads):
    """Trains on ids; requests have the texts that they are hashes of."""

    def serving_input_receiver_fn(self):
        return ServingInputReceiver(TEXTS)


class Silent(Texts):
    """Has no data any more."""

    def input_fn(self, mode):
        raise AssertionError("an export needs no data")


def config(folder, **settings):
    return mono.RunConfig(model_dir=folder / "model", log_step_count_steps=0, **settings)


def inputs(version):
    return [(spec.name, spec.datatype) for spec in load_export(version).signature.inputs]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    mono.Estimator(TwoHeads, config(folder)).train(steps=1)
    return folder


def test_by_default_requests_have_the_columns_of_the_source(trained, tmp_path):
    version = mono.Estimator(TwoHeads, config(trained)).export_saved_model(export_base=tmp_path)
    assert inputs(version) == [("uid", "INT64"), ("mov", "INT64")]


def test_a_model_says_what_requests_have_and_its_data_are_not_opened(trained, tmp_path):
    version = mono.Estimator(Silent, config(trained)).export_saved_model(export_base=tmp_path)
    assert inputs(version) == [("mov", "INT64"), ("uid", "BYTES")]
    served = load_export(version)
    served.apply_rows("uid", *rows_of(hash_bytes(b"somebody")))
    user = served.predict({"uid": ["somebody", "nobody"], "mov": [1, 1]})["vectors/user"]
    assert user.tolist() == [[1, 2, 3], [0, 0, 0]]


def rows_of(id_):
    return torch.tensor([id_]), torch.tensor([[1.0, 2.0, 3.0]])


def test_the_callers_function_comes_first(trained, tmp_path):
    estimator = mono.Estimator(Silent, config(trained))
    wanted = ServingInputReceiver(Schema.of(uid="int64", mov="hash"))
    version = estimator.export_saved_model(export_base=tmp_path, serving_input_receiver_fn=lambda: wanted)
    assert inputs(version) == [("uid", "INT64"), ("mov", "BYTES")]


def test_a_live_run_serves_them_too(tmp_path):
    mono.Estimator(Texts, config(tmp_path, export_base=str(tmp_path / "versions"))).train(steps=1)
    assert inputs(newest_export(tmp_path / "versions")) == [("mov", "INT64"), ("uid", "BYTES")]


@pytest.mark.parametrize(
    ("receiver", "message"),
    [
        (None, "must return a monolith.model.ServingInputReceiver, got None"),
        (TEXTS, "must return a monolith.model.ServingInputReceiver, got Schema"),
        (ServingInputReceiver(Schema.of(uid="int64")), "looks up 'mov', but the schema has only uid"),
        (ServingInputReceiver(Schema.of(uid="int64", mov="float32")), "looks up 'mov': requests must have int64 or"),
    ],
)
def test_what_no_export_can_take_is_a_value_error(trained, tmp_path, receiver, message):
    estimator = mono.Estimator(TwoHeads, config(trained))
    with pytest.raises(ValueError, match=message):
        estimator.export_saved_model(export_base=tmp_path, serving_input_receiver_fn=lambda: receiver)
    assert not list(tmp_path.iterdir())


def test_a_receiver_takes_a_schema():
    with pytest.raises(TypeError, match="takes a Schema, got dict; write Schema.of"):
        ServingInputReceiver({"uid": "int64"})


class Received(Summing):
    """A task of the original's kind that says what requests have."""

    receiver = staticmethod(lambda: ServingInputReceiver(Schema.of(ids="hash")))

    def create_serving_input_receiver_fn(self):
        return self.receiver


def test_a_task_and_its_exporter_take_the_function(tmp_path):
    local_train(Received.params(), model_dir=tmp_path, steps=1)
    task = CpuTraining(CpuTrainingConfig(), Received.params().instantiate())
    assert task.create_serving_input_receiver_fn()().features.names == ("ids",)
    exporter = create_exporter(task, tmp_path, None, "versions", False)
    assert inputs(exporter.export_saved_model()) == [("ids", "BYTES")]
    given = CpuTraining(CpuTrainingConfig(), Summing()).create_serving_input_receiver_fn()
    assert inputs(exporter.export_saved_model(given)) == [("ids", "INT64")]


def test_a_task_without_a_function_is_a_value_error(tmp_path):
    class Missing(Received):
        receiver = None

    with pytest.raises(ValueError, match="create_serving_input_receiver_fn must return a function"):
        Missing().serving_input_receiver_fn()


def test_the_ffm_model_takes_its_examples():
    receiver = FFMParams().task().instantiate().create_serving_input_receiver_fn()()
    assert receiver.features.records["format"] == "tf_example"
