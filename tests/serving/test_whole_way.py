"""From training over an export to a server's answers: compressed slices, dense weights alone, half a version."""

import shutil

import httpx
import numpy as np
import pytest
import torch

import monolith as mono
from monolith.embedding import FixedR8Compressor, Fp16Compressor, OneBitCompressor
from monolith.export import newest_export
from tests.export.two_heads import TwoHeads, columns, predicted
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running
from tests.serving.shards.fleet import until

pytestmark = pytest.mark.services

NUM_IDS = 40
SLICES = {
    "plain": None,
    "half": Fp16Compressor(),
    "byte": FixedR8Compressor(4.0),
    "bit": OneBitCompressor(amplitude=0.5),
}


class Compressed(mono.MonolithModel):
    """Each slice of one table is stored in another way; each is an output as it is read."""

    def __init__(self, params=None):
        super().__init__(params)
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def input_fn(self, mode):
        ids = np.arange(NUM_IDS)
        return mono.data.arrays({"uid": ids, "label": (ids % 2).astype(np.float32)}, batch_size=NUM_IDS)

    def model_fn(self, features, mode):
        slices = {}
        for name, compressor in SLICES.items():
            (slices[name],) = self.lookup_embedding_slice(["uid"], name, 3, compressor=compressor)
        self.add_extra_output("slices", slices)
        pred = (self.weight * sum(one.sum(1) for one in slices.values())).sigmoid()
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=pred)
        loss = torch.nn.functional.binary_cross_entropy(pred, features["label"])
        return mono.EstimatorSpec(label=features["label"], pred=pred, loss=loss, optimizer=self.optimizer)


def asked(client, name, inputs, signature):
    body = {"inputs": {key: values.tolist() for key, values in inputs.items()}, "signature_name": signature}
    answer = client.post(f"/v1/models/{name}:predict", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()["outputs"]
    return {key: np.array(values) for key, values in found.items()} if isinstance(found, dict) else np.array(found)


def client_of(ready):
    return httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS)


def test_each_slice_is_served_as_its_compressor_stores_it(tmp_path):
    config = mono.RunConfig(model_dir=tmp_path / "model", log_step_count_steps=0, seed=3)
    estimator = mono.Estimator(Compressed, config)
    estimator.train(steps=1)
    estimator.export_saved_model(export_base=tmp_path / "versions", name="compressed")
    trained = {name: values.double().numpy() for name, values in next(batches(estimator)).items()}
    with running(tmp_path / "versions", tmp_path / "ready.json") as (_, ready), client_of(ready) as client:
        uid = {"uid": np.arange(NUM_IDS)}
        slices = asked(client, "compressed", uid, "slices")
        pred = asked(client, "compressed", uid, "serving_default")
    np.testing.assert_allclose(slices["plain"], trained["slices/plain"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(slices["half"], trained["slices/half"], rtol=1e-3)
    np.testing.assert_allclose(slices["byte"] * 32, np.round(slices["byte"] * 32), rtol=0, atol=1e-5)
    np.testing.assert_allclose(slices["byte"], trained["slices/byte"], rtol=0, atol=1 / 32 + 1e-6)
    assert set(np.unique(slices["bit"])) == {-0.5, 0.5}
    np.testing.assert_array_equal(slices["bit"] > 0, trained["slices/bit"] > 0)
    weight = float(estimator.get_variable_value("weight"))
    logits = weight * sum(one.sum(1) for one in slices.values())
    np.testing.assert_allclose(pred, 1 / (1 + np.exp(-logits)), rtol=0, atol=1e-6)


def batches(estimator):
    return estimator.predict(yield_single_examples=False)


def test_a_server_takes_dense_weights_alone_and_passes_over_half_a_version(tmp_path):
    base = tmp_path / "versions"
    settings = {"model_dir": tmp_path / "model", "log_step_count_steps": 0, "seed": 1, "export_mode": "distributed"}
    estimator = mono.Estimator(TwoHeads, mono.RunConfig(**settings))
    estimator.train(steps=1)
    estimator.export_saved_model(export_base=base, name="heads")
    before = predicted(estimator)
    options = ("--poll-seconds", "0.1")
    with running(base, tmp_path / "ready.json", *options) as (_, ready), client_of(ready) as client:
        for name, values in asked(client, "heads", columns(), "serving_default").items():
            np.testing.assert_allclose(values, before[name], rtol=0, atol=1e-6)
        # All of it but the file that is written last.
        half = newest_export(base).with_name("9")
        shutil.copytree(newest_export(base), half, ignore=shutil.ignore_patterns("model.json"))
        shutil.copytree(half, half.with_name("8.tmp"))
        estimator.train(steps=1)
        estimator.export_saved_model(export_base=base, name="heads", dense_only=True, version=2)

        def version():
            (status,) = client.get("/v1/models/heads").json()["model_version_status"]
            return status["version"]

        until(lambda: version() == "2", "the server answers with the version of dense weights alone")
        rows = asked(client, "heads", columns(), "vectors")
        heads = asked(client, "heads", columns(), "serving_default")
    for name, values in rows.items():
        np.testing.assert_allclose(values, before[f"vectors/{name}"], rtol=0, atol=1e-6)
    tower = {name: estimator.get_variable_value(f"tower.{name}").numpy() for name in ("weight", "bias")}
    logits = np.concatenate([rows["user"], rows["movie"]], axis=1) @ tower["weight"].T + tower["bias"]
    np.testing.assert_allclose(heads["click"], 1 / (1 + np.exp(-logits[:, 0])), rtol=0, atol=1e-6)
