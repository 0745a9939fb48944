"""A small model of users and movies, whose events have an id and a text that can be searched for in files."""

import os
from pathlib import Path

import numpy as np
import torch

import monolith as mono

USER = 0x1122_3344_5566_7788
"""Its 8 bytes are in no file by chance."""

OTHER = 0x0102_0304_0506_0708
RARE = 0x2233_4455_6677_0011
"""Seen once: it has a count, and no row."""

TEXT = "a film that nobody must know of"
BATCH = 8
SCHEMA = mono.data.Schema.of(uid="int64", mov="hash", page="int64", label="float32")
FOLDERS = dict(log_step_count_steps=0, save_summary_steps=0)


class Users(mono.MonolithModel):
    """A row per user and movie, and per page after two sightings."""

    def __init__(self, params=None):
        super().__init__(params)
        torch.manual_seed(3)
        self.create_embedding_feature_column("uid")
        self.create_embedding_feature_column("mov")
        self.create_embedding_feature_column("page", occurrence_threshold=2, filter_capacity=3000)
        self.tower = torch.nn.Linear(6, 1)
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def input_fn(self, mode):
        return events()

    def model_fn(self, features, mode):
        vectors = self.lookup_embedding_slice(["uid", "mov", "page"], slice_name="vec", slice_dim=2)
        logit = self.tower(torch.cat(vectors, dim=1)).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, features["label"], reduction="sum")
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def events(count=128):
    """USER, OTHER and TEXT in every batch, RARE in one event of the first batch."""
    uid = np.arange(count) % 40 + 100
    uid[::BATCH] = USER
    uid[1::BATCH] = OTHER
    page = np.arange(count) % 12 + (1 << 50)
    page[2] = RARE
    mov = [TEXT if row % BATCH == 3 else f"movie {row % 9}" for row in range(count)]
    label = (np.arange(count) % 2).astype(np.float32)
    columns = {"uid": uid, "mov": mov, "page": page, "label": label}
    return mono.data.arrays(columns, batch_size=BATCH, schema=SCHEMA)


def train(model_dir, *, steps=12, **settings):
    config = mono.RunConfig(model_dir=str(model_dir), **FOLDERS, **settings)
    return mono.Estimator(Users, config).train(steps=steps)


def files_with(folder, id_):
    """The files below a folder that have the 8 bytes of an id, or its decimal digits."""
    needles = [id_.to_bytes(8, "little", signed=True), str(id_).encode()]
    return sorted(name for name, content in _files(folder) if any(needle in content for needle in needles))


def files_with_text(folder, text=TEXT):
    return sorted(name for name, content in _files(folder) if text.encode() in content)


def _files(folder):
    """Yield the names of all files below a folder, with their contents; a run may remove and rename some meanwhile."""
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                yield name, Path(place, name).read_bytes()
            except FileNotFoundError:
                continue
