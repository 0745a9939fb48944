"""A model of lists: a mean, a sum and a sequence of rows beside single ids, two of them in one table."""

from typing import Any

import numpy as np
import torch
from torch import nn

import monolith as mono
from monolith.data import Schema
from monolith.features import hash_bytes

DIM = 4
HISTORY = 3
NUM_IDS = 50
SCHEMA = Schema.of(
    uid="int64", mov="int64", genres="int64[]", tags="int64[]", history="int64[]", hour="float32", label="float32"
)
LISTS = ("genres", "tags", "history")
DATATYPES = {"uid": "INT64", "mov": "INT64", "genres": "INT64", "tags": "INT64", "history": "INT64", "hour": "FP32"}


class Taste(mono.MonolithModel):
    """`params`: the columns of the data."""

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column("genres", combiner="reduce_mean")
        self.create_embedding_feature_column("tags", combiner="reduce_sum")
        self.create_embedding_feature_column("history", max_seq_length=HISTORY, shared_name="mov")
        self.places = nn.Parameter(torch.tensor([1.0, 0.5, 0.25]))
        self.tower = nn.Linear(5 * DIM, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=0.01)

    def input_fn(self, mode):
        is_text = isinstance(self.params["uid"][0], str)
        schema = SCHEMA.with_columns(**{"uid": "hash", "tags": "hash[]"} if is_text else {})
        fill = {"hour": 0.5, **({"uid": "7"} if is_text else {})}
        return mono.data.arrays(self.params, batch_size=64, schema=schema, fill_missing=fill)

    def model_fn(self, features, mode):
        rows = self.lookup_embedding_slice(["uid", "mov", "genres", "tags"], slice_dim=DIM)
        (history,) = self.lookup_embedding_slice(["history"], slice_dim=DIM)
        watched = (history * self.places[None, :, None]).sum(1)
        logit = self.tower(torch.cat([*rows, watched], dim=1)).squeeze(1) + 0.1 * features["hour"]
        if mode == mono.PREDICT:
            return mono.EstimatorSpec(label=None, pred=logit.sigmoid())
        loss = nn.functional.binary_cross_entropy_with_logits(logit, features["label"], reduction="sum")
        return mono.EstimatorSpec(label=features["label"], pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def events(count: int, seed: int = 0) -> dict[str, Any]:
    """Events whose lists have 0 to 5 ids; some of the ids of later seeds are new."""
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {name: random.integers(0, NUM_IDS + seed, count) for name in ("uid", "mov")}
    for name in LISTS:
        columns[name] = [random.integers(0, NUM_IDS + seed, random.integers(0, 6)).tolist() for _ in range(count)]
    columns["hour"] = random.uniform(0, 1, count).astype(np.float32)
    columns["label"] = random.integers(0, 2, count).astype(np.float32)
    return columns


def with_text_ids(columns: dict[str, Any]) -> dict[str, Any]:
    """The same events where uid and tags are the ids of texts."""
    text = {name: columns[name] for name in columns} | texts_of(columns)
    text["uid"] = [hash_bytes(one.encode()) for one in text["uid"]]
    text["tags"] = [[hash_bytes(one.encode()) for one in row] for row in text["tags"]]
    return text


def texts_of(columns: dict[str, Any]) -> dict[str, Any]:
    """Texts in place of the ids of uid and tags."""
    tags = [[f"tag {one} 💡" for one in row] for row in columns["tags"]]
    users = [str(one) if one % 2 else f'né "{one}"' if one else "" for one in columns["uid"]]
    return {"uid": users, "tags": tags}


def request_columns(columns: dict[str, Any]) -> dict[str, list[Any]]:
    """The inputs of a request as Python lists."""
    return {name: np.asarray(columns[name]).tolist() if name not in LISTS else columns[name] for name in DATATYPES}


def instances(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """The same by example."""
    by_column = request_columns(columns)
    return [dict(zip(by_column, values, strict=True)) for values in zip(*by_column.values(), strict=True)]


def tensors(columns: dict[str, Any]) -> dict[str, np.ndarray]:
    """The same as tensors of the Open Inference Protocol."""
    found = {}
    for name, values in request_columns(columns).items():
        if name in LISTS:
            found[name] = np.array([one for row in values for one in row], np.int64)
            found[f"{name}:lengths"] = np.array([len(row) for row in values], np.int64)
        else:
            found[name] = np.array(values, np.float32 if name == "hour" else np.int64)
    return found


def trained(folder: Any, columns: dict[str, Any]) -> mono.Estimator:
    """An estimator that has a snapshot."""
    estimator = mono.Estimator(Taste, mono.RunConfig(model_dir=folder, log_step_count_steps=0), params=columns)
    estimator.train()
    return estimator


def predicted(estimator: mono.Estimator, columns: dict[str, Any]) -> np.ndarray:
    """What the estimator itself says."""
    estimator.model.params = columns
    return torch.cat([batch["pred"] for batch in estimator.predict(yield_single_examples=False)]).numpy()
