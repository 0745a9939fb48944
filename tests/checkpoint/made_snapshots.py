"""Small snapshots for tests: two tables, one of two slices, and a dense tensor."""

import json
import os
from pathlib import Path

import torch

import monolith as mono
from monolith._core import native
from monolith.checkpoint import save_snapshot
from monolith.data import Schema
from monolith.model import make_plan, make_tables


class Model(mono.MonolithModel):
    """`uid` has slices of 2 and 1 floats, `mov` one of 2."""

    def model_fn(self, features, mode):
        vec = torch.cat(self.lookup_embedding_slice(["uid", "mov"], slice_name="vec", slice_dim=2), dim=1)
        (bias,) = self.lookup_embedding_slice(["uid"], slice_name="bias", slice_dim=1)
        pred = vec.sum(dim=1) + bias.sum(dim=1)
        return mono.EstimatorSpec(label=None, pred=pred, loss=pred.sum())


PLAN = make_plan(Model(), Schema.of(uid="int64", mov="int64"))


def make_rows(uid: dict[int, list[float]], mov: dict[int, list[float]]):
    tables = make_tables(PLAN)
    for name, rows in (("uid", uid), ("mov", mov)):
        if rows:
            tables[name].assign(torch.tensor(list(rows)), torch.tensor(list(rows.values())), time=100)
    return tables


def save(model_dir, step, tables=None, *, extra=None, dense=None, time=None) -> Path:
    path = save_snapshot(
        model_dir,
        step,
        plan=PLAN,
        tables=tables or make_rows({1: [1.0, 2.0, 3.0]}, {}),
        dense=dense or {"model/weight": torch.tensor([1.5, float(step)])},
        stream={"0": step},
        generation=1,
        epoch=step,
        extra=extra or {},
    )
    if time is not None:
        os.utime(path / "manifest.json", (time, time))
    return path


def rewrite_manifest(path: Path, change) -> None:
    """Change a manifest's JSON and give it the checksum of an attacker who knows how."""
    values = json.loads((path / "manifest.json").read_bytes())
    values.pop("crc32c")
    values = change(values) or values
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
    values["crc32c"] = native.crc32c(canonical)
    (path / "manifest.json").write_text(json.dumps(values))


def names_in(folder) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir() if path.is_dir())
