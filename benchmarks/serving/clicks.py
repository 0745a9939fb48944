"""What is served: DeepFM of 26 features as an export, and requests of one user and many candidates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.serving.sizes import ServingSizes
from monolith.data import Schema
from monolith.embedding import MultiTable
from monolith.export import Export, write_export
from monolith.model import LookupPlan, make_plan, make_tables
from monolith.model.zoo.click_model import CATEGORIES, NUM_DENSE
from monolith.model.zoo.deepfm import DeepFM

GENERATION = 1
NAME = "clicks"
USER = (*CATEGORIES[:13], "dense")
"""Sent once per request; the other 13 features are sent per candidate."""

_SCHEMA = Schema.of(
    **dict.fromkeys(CATEGORIES, "int64"), dense=f"float32[{NUM_DENSE}]", label="float32", req_time="int64"
)
_ROWS_PER_FILL = 1 << 16

Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Clicks:
    """A model with rows for all ids, as after training."""

    model: DeepFM

    plan: LookupPlan

    tables: MultiTable

    def export(self, base: Path) -> None:
        """Write version 1."""
        write_export(
            base,
            1,
            Export(
                model=self.model,
                plan=self.plan,
                tables=self.tables,
                schema=_SCHEMA,
                generation=GENERATION,
                sequence=0,
                name=NAME,
            ),
        )


def make_clicks(sizes: ServingSizes) -> Clicks:
    """Return the model, with random rows for the ids 1 to `rows_per_table` of every feature."""
    torch.manual_seed(3)
    params = DeepFM.params()
    params.set(dim=sizes.dim, hidden=sizes.hidden)
    model = DeepFM(params)
    plan = make_plan(model, _SCHEMA)
    tables = make_tables(plan)
    for table in tables.tables.values():
        for begin in range(1, sizes.rows_per_table + 1, _ROWS_PER_FILL):
            ids = torch.arange(begin, min(begin + _ROWS_PER_FILL, sizes.rows_per_table + 1))
            table.assign(ids, 0.1 * torch.randn(len(ids), table.dim))
    return Clicks(model, plan, tables)


def columns_of(sizes: ServingSizes, seed: int) -> Columns:
    """Return the inputs of one request: one row of the user's, a row per candidate of the others."""
    random = np.random.default_rng(seed)
    ids: Columns = {
        name: random.integers(1, sizes.rows_per_table + 1, 1 if name in USER else sizes.num_candidates)
        for name in CATEGORIES
    }
    return {**ids, "dense": random.uniform(0, 1, (1, NUM_DENSE)).astype(np.float32).round(3)}


def json_body(columns: Columns) -> bytes:
    """Return a request in TensorFlow Serving's form, which the hand-written server takes too."""
    # As decimals, not as all digits of a 32-bit number's 64-bit form.
    values = {name: np.vectorize(lambda one: round(float(one), 3))(v).tolist() if v.dtype.kind == "f" else v.tolist()
              for name, v in columns.items()}  # fmt: skip
    return json.dumps({"inputs": values}).encode()


def binary_body(columns: Columns) -> tuple[bytes, dict[str, str]]:
    """Return a request of the Open Inference Protocol with binary tensors both ways, and its headers."""
    inputs = [
        {
            "name": name,
            "shape": list(values.shape),
            "datatype": "FP32" if values.dtype.kind == "f" else "INT64",
            "parameters": {"binary_data_size": values.nbytes},
        }
        for name, values in columns.items()
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    body = head + b"".join(values.tobytes() for values in columns.values())
    return body, {"Inference-Header-Content-Length": str(len(head))}
