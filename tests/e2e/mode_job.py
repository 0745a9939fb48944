"""A job with a data service, started as the original's binary: each process takes its role from the environment."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import monolith as mono
from monolith.data import Source
from monolith.data.files import TFRecordWriter
from monolith.protos.tf_example_pb2 import Example
from monolith.train.config import ServiceDiscoveryType
from tests.train.job.counting_job import config_of

BATCH = 16
EVENTS_PER_FILE = 48
NUM_FILES = 10
NUM_EVENTS = EVENTS_PER_FILE * NUM_FILES
INPUT_VARIABLE = "MODE_JOB_INPUT"


class MultiHead(mono.MonolithModel):
    """Says whether an event is liked, and whether it is shared."""

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        for name in ("user", "item"):
            self.create_embedding_feature_column(name)
        self.heads = nn.ModuleDict({name: nn.Linear(16, 1) for name in ("like", "share")})
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.01)

    def input_fn(self, mode):
        return make_source()

    def model_fn(self, features, mode):
        rows = torch.cat(self.lookup_embedding_slice(["user", "item"], slice_dim=8), dim=1)
        logits = {name: head(rows).squeeze(1) for name, head in self.heads.items()}
        pred = {name: logit.sigmoid() for name, logit in logits.items()}
        label = {name: features[name] for name in logits}
        losses = [nn.functional.binary_cross_entropy_with_logits(logits[name], label[name]) for name in logits]
        return mono.EstimatorSpec(label=label, pred=pred, loss=sum(losses), optimizer=self.optimizer)


def write_input(folder: Path) -> str:
    """Write one file, which ten names share; return the pattern that finds them."""
    random = np.random.default_rng(5)
    with TFRecordWriter(str(folder / "events")) as writer:
        for _ in range(EVENTS_PER_FILE):
            example = Example()
            for name, size in (("user", 20), ("item", 10)):
                example.features.feature[name].int64_list.value.append(int(random.integers(size)))
            for name in ("like", "share"):
                example.features.feature[name].float_list.value.append(float(random.integers(2)))
            writer.write(example.SerializeToString())
    for number in range(NUM_FILES):
        (folder / f"part_{number}").symlink_to(folder / "events")
    return str(folder / "part_{INT(0,99)}")


def make_source() -> Source:
    """Return what the data service reads."""
    files = mono.data.tfrecord(os.environ[INPUT_VARIABLE], batch_size=BATCH)
    return files.parse("tf_example", user="int64", item="int64", like="float32", share="float32")


def be_a_process(environment: dict[str, str], model_dir: str, **settings: Any) -> None:
    """Be the process of the job that the environment names; every role runs the same program."""
    torch.set_num_threads(1)
    os.environ.update(environment)
    config = config_of(Path(model_dir), discovery_type=ServiceDiscoveryType.MLP, use_dataservice=True, **settings)
    mono.Estimator(MultiHead, config).train()
