"""The FFM model: its events, its arithmetic, and the story of train, evaluate and predict."""

import numpy as np
import pytest
import torch

import monolith as mono
from monolith.model.hyper_params.registry import GetParams
from monolith.model.zoo import ffm
from monolith.model.zoo.ffm import FFMParams, TestFFMModel, generate_ffm_example
from monolith.native_training.model import FFMParams as OriginalParams
from monolith.native_training.model import TestFFMModel as OriginalModel
from monolith.protos.tf_example_pb2 import Example

# RandomState(0) begins 4 0 3 3 3 1 3 2 4 0: five ids (4 + 1), which are 0 3 3 3 1.
FIRST_IDS = [[0, 3, 3, 3, 1], [0, 1, 1, 1], [1, 1], [0, 0, 1, 2]]
LAST_IDS = [[0, 1, 3, 3], [2, 0, 1], [0, 1, 1], [1, 2, 3]]
NUM_POSITIVE = 30


@pytest.fixture
def estimator(tmp_path):
    return mono.Estimator(FFMParams().task(), mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0))


def test_constants_and_names_are_the_original_ones():
    assert (ffm._NUM_SLOTS, ffm._VOCAB_SIZES, ffm._NUM_EXAMPLES) == (6, [5, 5, 5, 5, 5, 5], 64)
    assert (OriginalModel, OriginalParams) == (TestFFMModel, FFMParams)
    assert GetParams("FFMParams").train.per_replica_batch_size == 64
    users, items = {pair[0] for pair in ffm._FFM_SLOT}, {pair[1] for pair in ffm._FFM_SLOT}
    assert users | items == set(range(6))
    assert not users & items


def test_the_batch_is_always_the_same():
    batch = next(iter(FFMParams().task().instantiate().input_fn(mono.TRAIN)))
    assert len(batch) == 64
    assert batch.columns["feature_0"].to_list()[:4] == FIRST_IDS
    assert batch.columns["feature_5"].to_list()[:4] == LAST_IDS
    assert batch.columns["label"].sum() == NUM_POSITIVE
    again = next(iter(FFMParams().task().instantiate().input_fn(mono.EVAL)))
    assert torch.equal(batch.columns["feature_3"].values, again.columns["feature_3"].values)


def test_a_label_says_whether_both_halves_lean_the_same_way():
    random = np.random.RandomState(5)
    for _ in range(50):
        features = Example.FromString(generate_ffm_example([5] * 6, random)).features.feature
        ids = [list(features[f"feature_{slot}"].int64_list.value) for slot in range(6)]
        assert all(1 <= len(some) <= 5 and set(some) <= set(range(5)) for some in ids)
        user, item = (sum(1 if one % 2 else -1 for some in half for one in some) for half in (ids[:3], ids[3:]))
        assert features["label"].float_list.value == [1.0 if user * item > 0 else 0.0]


def test_train_evaluate_predict(estimator):
    assert estimator.train(steps=10).global_step == 10
    before = estimator.evaluate(steps=10)
    assert before["num_events"] == 640
    assert estimator.train(steps=40).global_step == 50
    after = estimator.evaluate(steps=10)
    assert after["loss"] < before["loss"] < 64 * np.log(2)
    assert after["auc"] > 0.99
    predictions = [float(one["pred"]) for one in estimator.predict()]
    assert len(predictions) == 64  # once through the events, which are repeated without end in the other modes
    assert all(0 < one < 1 for one in predictions)


class _Reader:
    """Answers lookups with rows it makes up, and remembers them."""

    def __init__(self):
        self.rows = {}

    def read(self, request):
        key = request.column.name, request.slice_name
        random = np.random.RandomState(len(self.rows))
        self.rows[key] = torch.tensor(random.randn(3, request.dim), dtype=torch.float32, requires_grad=True)
        return self.rows[key]


def test_the_logit_is_the_sum_of_biases_and_products():
    model, reader = FFMParams().task().instantiate(), _Reader()
    model.slice_reader = reader
    pred = model.model_fn({}, mono.PREDICT).pred
    rows = {key: row.detach().numpy().astype(np.float64) for key, row in reader.rows.items()}
    logit = sum(rows[f"feature_{slot}", "bias"][:, 0] for slot in range(3))
    seen = dict.fromkeys(range(6), 0)  # slices behind the bias are used pair by pair, in their order
    for user, item, dim in ffm._FFM_SLOT:
        pair = []
        for slot in (user, item):
            seen[slot] += 1
            pair.append(rows[f"feature_{slot}", f"slice_{seen[slot]}"])
            assert pair[-1].shape == (3, dim)
        logit = logit + (pair[0] * pair[1]).sum(1)
    np.testing.assert_allclose(pred.detach().numpy(), 1 / (1 + np.exp(-logit)), rtol=1e-5)


def test_what_it_does_not_do_is_said():
    task = FFMParams().task()
    task.metrics.enable_deep_insight = True
    with pytest.raises(NotImplementedError, match="enable_deep_insight"):
        task.instantiate().model_fn({}, mono.PREDICT)
