"""A model whose rows are no halves, for jobs whose rows travel as fp16."""

from pathlib import Path

import torch
from torch import nn

import monolith as mono
from monolith.embedding import SgdOptimizer, ZerosInitializer
from tests.train.job.counting_job import config_of as job_config_of
from tests.train.ranks.mixed_job import MIXED
from tests.train.ranks.sync_model import config_of

BATCH, STEPS = 8, 6


class Thirds(mono.MonolithModel):
    """Every batch adds 8/3 to the one row; gradients are the same whatever was pulled."""

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column(
            "uid", optimizer=SgdOptimizer(learning_rate=1 / 3), initializer=ZerosInitializer()
        )
        self.weight = nn.Parameter(torch.zeros(1))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=1 / 3)

    def input_fn(self, mode):
        count = STEPS * BATCH * 2
        columns = {"uid": torch.zeros(count, dtype=torch.int64), "label": torch.ones(count)}
        return mono.data.arrays(columns, batch_size=BATCH)

    def model_fn(self, features, mode):
        (rows,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        pred = rows.squeeze(1)
        loss = -pred.sum() - self.weight.sum()
        label = features["label"]
        return mono.EstimatorSpec(label=label, pred=pred, loss=loss, optimizer=self.optimizer, classification=False)


class OnlyHalves(Thirds):
    """Refuses to compute with rows that did not travel as fp16."""

    def model_fn(self, features, mode):
        spec = super().model_fn(features, mode)
        if not torch.equal(spec.pred, spec.pred.half().float()):
            raise AssertionError(f"rows came as float32: {spec.pred}")
        return spec


class Pulled(mono.Hook):
    """The row that each batch was computed with."""

    def __init__(self):
        self.rows = []

    def after_run(self, context, values):
        self.rows.append(float(values.spec.pred.detach()[0]))


def take_half_part(model_dir, num_events, **role):
    """Be a process of a job that pulls halves."""
    torch.set_num_threads(1)
    mono.Estimator(OnlyHalves, job_config_of(Path(model_dir), **role)).train()


def train_as_rank(folder):
    """Be a rank whose rows are on a parameter server; return what was pulled."""
    pulled = Pulled()
    config = config_of(folder, **MIXED | {"num_ps": 1}, half_precision_rows=True)
    mono.Estimator(OnlyHalves, config).train(hooks=[pulled])
    return pulled.rows


def serve_ranks(folder, index):
    """Be the parameter server of those ranks."""
    config = config_of(folder, **MIXED | {"num_ps": 1}, half_precision_rows=True, server_type="ps", index=index)
    mono.Estimator(OnlyHalves, config).train()
