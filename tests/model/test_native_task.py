"""Tasks that make their own slots, slices and gradients."""

import numpy as np
import pytest
import torch

import monolith as mono
from monolith.data import Batch, Schema
from monolith.embedding import SgdOptimizer, ZerosInitializer
from monolith.embedding.combiners import FirstN
from monolith.hooks import Hook
from monolith.model.native_task import FeatureColumnV1, FeatureSlotConfig, NativeTask, TaskSpec
from monolith.tensors import Ragged

IDS = [[1, 2], [2], [], [3, 1, 2]]


class Repeated:
    """The same four events again and again."""

    schema = Schema.of(ids="int64[]", label="float32")

    def __init__(self, count):
        self.count, self.position = count, 0

    def __iter__(self):
        while self.position < self.count:
            first, self.position = self.position * 4, self.position + 1
            columns = {"ids": Ragged.from_lists(IDS), "label": torch.tensor([1.0, 0.0, 1.0, 0.0])}
            yield Batch(columns, first, first + 4)

    def state(self):
        return {"n": self.position}

    def restore(self, state):
        self.position = state["n"]


class Summing(NativeTask):
    """Each step takes 1 from the row of each occurrence of an id: after n steps a row is -n * occurrences."""

    def __init__(self, params=None):
        super().__init__(params)
        self.seen_hooks = []

    def create_input_fn(self, mode):
        return lambda: Repeated(5)

    def create_model_fn(self):
        def model_fn(features, mode, config):
            slot = self.ctx.create_feature_slot(
                FeatureSlotConfig(
                    name="ids",
                    has_bias=True,
                    bias_optimizer=SgdOptimizer(1.0),
                    default_vec_optimizer=SgdOptimizer(1.0),
                    default_vec_initializer=ZerosInitializer(),
                )
            )
            piece = slot.add_feature_slice(2)
            column = FeatureColumnV1(slot, "ids")
            rows, bias = column.embedding_lookup(piece), column.get_bias()
            pred = rows.sum(1) + bias.squeeze(1)
            if mode == mono.PREDICT:
                return TaskSpec(predictions=pred)
            if mode == mono.TRAIN:
                self.ctx.apply_embedding_gradients([(torch.ones_like(rows), rows), (None, bias)], scale=0.5)
            return TaskSpec(predictions=pred, loss=pred.sum(), hooks=(Counter(self.seen_hooks),))

        return model_fn


class Counter(Hook):
    def __init__(self, seen):
        self.seen = seen

    def after_run(self, context, values):
        self.seen.append(values.step)


def test_gradients_that_the_task_applies_replace_those_of_the_loss(tmp_path):
    estimator = mono.Estimator(Summing, mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0))
    estimator.train(max_steps=4)
    predicted = torch.cat([part["pred"] for part in estimator.predict(yield_single_examples=False)])[:4]
    # Ids 1, 2, 3 occur 2, 3 and 1 times in a batch; half of a gradient of ones, four steps, two columns.
    row = {one: -0.5 * 4 * times * 2 for one, times in ((1, 2), (2, 3), (3, 1))}
    assert predicted.tolist() == [sum(row[one] for one in ids) for ids in IDS]
    assert estimator.model.seen_hooks == [0, 1, 2, 3]


def test_the_parameters_of_a_task_have_the_original_defaults():
    task = Summing.params().set(**{"train.per_replica_batch_size": 64}).instantiate()
    assert (task.p.metrics.deep_insight_target, task.p.serving.export_dir_base) == ("ctr_head", "exported_models")
    assert (task.p.train.per_replica_batch_size, task.p.train.max_pending_seconds_for_barrier) == (64, 30)
    assert task.p.eval.steps_per_eval == 10000


def test_slots_are_checked():
    task = Summing()
    slot = task.ctx.create_feature_slot(FeatureSlotConfig(name="a"))
    with pytest.raises(ValueError, match="Duplicate names for the table. Name: a"):
        task.ctx.create_feature_slot(FeatureSlotConfig(name="a"))
    other = task.ctx.create_feature_slot(FeatureSlotConfig(name="b")).add_feature_slice(3)
    with pytest.raises(AssertionError, match="Slice must come from the dedicated feature slot."):
        FeatureColumnV1(slot, "a").embedding_lookup(other)
    with pytest.raises(AssertionError, match="has no bias"):
        slot.get_bias_slice()
    with pytest.raises(ValueError, match="at least one wide"):
        slot.add_feature_slice(0)


def test_the_mask_of_a_sequence_says_where_ids_are():
    slot = Summing().ctx.create_feature_slot(FeatureSlotConfig(name="a"))
    column = FeatureColumnV1(slot, "a", FeatureColumnV1.first_n(3))
    column.set_size_tensor(torch.tensor([1, 0, 5]))
    assert column.get_size_tensor().tolist() == [[1, 0, 0], [0, 0, 0], [1, 1, 1]]
    with pytest.raises(AssertionError, match="only supported in a sequence feature"):
        FeatureColumnV1(slot, "a").get_size_tensor()
    assert slot.get_feature_columns()[0] is column
    assert isinstance(column.combiner, FirstN)


def test_added_losses_count(tmp_path):
    class Regularised(mono.MonolithModel):
        def input_fn(self, mode):
            return Repeated(2)

        def model_fn(self, features, mode):
            (rows,) = self.lookup_embedding_slice(["ids"], "vec", 1)
            self.add_loss(torch.tensor(2.5))
            self.add_loss([torch.tensor(1.0), torch.tensor(0.5)])
            return mono.EstimatorSpec(label=features["label"], pred=rows.sum(1), loss=rows.sum() * 0)

    result = mono.Estimator(Regularised, mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0)).train()
    assert result.loss == np.float32(4.0)
