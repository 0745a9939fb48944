"""A registered task with a row, a dense weight and dates, for tests of TPURunner."""

import torch
from torch import nn

import monolith as mono
from monolith.data.input_config import current_input
from monolith.embedding import AdagradOptimizer
from monolith.model.hyper_params import RegisterSingleTaskModel, SingleTaskModelParams
from monolith.model.native_task import FeatureColumnV1, FeatureSlotConfig, NativeTask, TaskSpec
from monolith.tensors import Ragged

NUM_EVENTS = 96
SEEN: list[dict[str, object]] = []
"""What each task was asked to read."""


class SmallTask(NativeTask):
    """Reads users and lists of movies; its label is whether the user's number is odd."""

    @classmethod
    def params(cls):
        made = super().params()
        made.train.define("end_date", "20260101", "Day after the last one to read.")
        made.train.per_replica_batch_size = 32
        made.eval.per_replica_batch_size = 48
        return made

    def __init__(self, params=None):
        super().__init__(params)
        self.tower = nn.Linear(8, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.01)

    def create_input_fn(self, mode):
        group = self.p.eval if mode == mono.EVAL else self.p.train
        SEEN.append({"mode": mode, "end_date": self.p.train.end_date, "batch_size": group.per_replica_batch_size})
        users = torch.arange(NUM_EVENTS) * 7 % 30
        lengths = torch.arange(NUM_EVENTS) % 4
        columns = {
            "user": users,
            "movies": Ragged.from_row_lengths(torch.arange(int(lengths.sum())) % 11, lengths),
            "label": (users % 2).float(),
        }
        return lambda: mono.data.arrays(columns, batch_size=group.per_replica_batch_size)

    def create_model_fn(self):
        def model_fn(features, mode, config):
            rows = []
            for name in ("user", "movies"):
                slot = self.ctx.create_feature_slot(
                    FeatureSlotConfig(name=name, default_vec_optimizer=AdagradOptimizer(0.1))
                )
                rows.append(FeatureColumnV1(slot, name).embedding_lookup(slot.add_feature_slice(4)))
            logit = self.tower(torch.cat(rows, dim=1)).squeeze(1)
            if mode == mono.PREDICT:
                return TaskSpec(predictions=logit.sigmoid())
            assert features["movies"].values.device == features["label"].device == self.tower.weight.device
            loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"])
            return TaskSpec(predictions=logit.sigmoid(), loss=loss, label=features["label"], optimizer=self.optimizer)

        return model_fn


@RegisterSingleTaskModel
class SmallTaskParams(SingleTaskModelParams):
    def task(self):
        params = SmallTask.params()
        params.train.max_steps = 3
        return params


class Dated(mono.MonolithModel):
    """Has no parameters of its own; it reads what the settings say."""

    def __init__(self, params=None):
        super().__init__(params)
        self.create_embedding_feature_column("uid")

    def input_fn(self, mode):
        SEEN.append({"end_date": current_input().end_date})
        return mono.data.arrays({"uid": torch.arange(4), "label": torch.ones(4)}, batch_size=4)

    def model_fn(self, features, mode):
        (row,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        return mono.EstimatorSpec(label=features["label"], pred=row[:, 0].sigmoid(), loss=row.sum())
