"""TestFFMModel: a field-aware factorization machine on 64 made-up events, to try a whole system with."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from monolith.data import Pipeline, arrays
from monolith.embedding import SgdOptimizer
from monolith.model.hyper_params.instantiable import InstantiableParams
from monolith.model.hyper_params.registry import RegisterSingleTaskModel, SingleTaskModelParams
from monolith.model.modes import Mode
from monolith.model.native_task import FeatureColumnV1, FeatureSlotConfig, NativeTask, TaskSpec
from monolith.model.native_task.task import InputFn, TaskModelFn
from monolith.model.serving_inputs import ServingInputReceiver, ServingInputReceiverFn
from monolith.protos.tf_example_pb2 import Example

_NUM_SLOTS = 6
_VOCAB_SIZES = [5] * _NUM_SLOTS
_NUM_EXAMPLES = 64
_FFM_SLOT = tuple((user, item, dim) for user in (0, 1, 2) for item, dim in ((3, 4), (4, 4), (5, 8)))
"""Slot of a user, slot of an item, and how wide the rows are that each keeps for the other."""


def generate_ffm_example(vocab_sizes: Sequence[int], random: np.random.RandomState, length: int = 5) -> bytes:
    """Return a serialized `tf.Example` with a label and one to `length` ids in each slot, `feature_0` and so on.

    The label is 1 where users and items lean to the same side: both halves of the slots have more odd ids than even
    ones, or both have fewer. No id says anything by itself, only pairs of them do.
    """
    example, leans = Example(), [0, 0]
    for slot, size in enumerate(vocab_sizes):
        ids = random.randint(size, size=random.randint(1, length + 1))
        example.features.feature[f"feature_{slot}"].int64_list.value.extend(ids.tolist())
        leans[2 * slot // len(vocab_sizes)] += int(np.where(ids % 2, 1, -1).sum())
    example.features.feature["label"].float_list.value.append(float(leans[0] * leans[1] > 0))
    return example.SerializeToString()


class TestFFMModel(NativeTask):
    """Sums biases of the user's slots and, over pairs of slots, products of the rows each keeps for the other."""

    __test__ = False  # the name is that of the original; it is no test

    def create_input_fn(self, mode: Mode) -> InputFn:
        """Return the source of a mode: the same 64 events again and again; for PREDICT once, without labels."""

        def input_fn() -> Pipeline:
            random = np.random.RandomState(0)
            records = [generate_ffm_example(_VOCAB_SIZES, random) for _ in range(_NUM_EXAMPLES)]
            columns: dict[str, Any] = dict.fromkeys((f"feature_{slot}" for slot in range(_NUM_SLOTS)), "int64[]")
            if mode != Mode.PREDICT:
                columns["label"] = "float32"
            batch_size = self.p.train.per_replica_batch_size or _NUM_EXAMPLES
            events = arrays({"record": records}, batch_size=batch_size).parse("tf_example", **columns).cache()
            return events if mode == Mode.PREDICT else events.repeat().prefetch()

        return input_fn

    def create_model_fn(self) -> TaskModelFn:
        """Return the function of a batch; in TRAIN it applies the gradients of the rows itself."""

        def model_fn(features: dict[str, Any], mode: Mode, config: Any) -> TaskSpec:
            if self.p.metrics.enable_deep_insight:
                raise NotImplementedError(
                    "metrics.enable_deep_insight: the run sends predictions, not the task; leave it off, and set "
                    "deep_insight_sample_ratio of the RunConfig"
                )
            looked_up: list[Tensor] = []
            logit = self._logit(looked_up)
            if mode == Mode.PREDICT:
                return TaskSpec(predictions=logit.sigmoid())
            loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"], reduction="sum")
            if mode == Mode.TRAIN:
                gradients = torch.autograd.grad(loss, looked_up)
                self.ctx.apply_embedding_gradients(zip(gradients, looked_up, strict=True))
            return TaskSpec(predictions=logit.sigmoid(), loss=loss, label=features["label"])

        return model_fn

    def create_serving_input_receiver_fn(self) -> ServingInputReceiverFn:
        """Return a function that lets requests have the examples of the data, or their columns."""
        return lambda: ServingInputReceiver(self.input_fn(Mode.PREDICT).schema)

    def _logit(self, looked_up: list[Tensor]) -> Tensor:
        """Return the log-odds [events]; everything read from tables is added to `looked_up`."""
        names = [f"feature_{slot}" for slot in range(_NUM_SLOTS)]
        slots = [self.ctx.create_feature_slot(_slot_config(name)) for name in names]
        columns = [FeatureColumnV1(slot, name) for slot, name in zip(slots, names, strict=True)]
        biases = [column.get_bias() for column in columns[: _NUM_SLOTS // 2]]
        looked_up += biases
        logit = torch.cat(biases, dim=1).sum(1)
        for user, item, dim in _FFM_SLOT:
            pair = [columns[slot].embedding_lookup(slots[slot].add_feature_slice(dim)) for slot in (user, item)]
            looked_up += pair
            logit = logit + (pair[0] * pair[1]).sum(1)
        return logit


def _slot_config(name: str) -> FeatureSlotConfig:
    return FeatureSlotConfig(
        name=name,
        has_bias=True,
        bias_learning_rate_fn=0.01,
        default_vec_optimizer=SgdOptimizer(),
        default_vec_learning_rate_fn=0.02,
    )


@RegisterSingleTaskModel
class FFMParams(SingleTaskModelParams):
    """The model in batches of 64."""

    def task(self) -> InstantiableParams:
        """Return its parameters."""
        params = TestFFMModel.params()
        params.train.per_replica_batch_size = 64
        return params
