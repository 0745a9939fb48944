"""Batches from lists, as tests write them."""

import torch

from monolith.data import Batch, Pipeline, Schema, assert_resume_is_exact
from monolith.data.transforms import schema_after
from monolith.data.transforms.step import dtype_of
from monolith.tensors import Ragged
from tests.data.batch_list import BatchList


def column(values):
    """A list of lists is ragged, of bytes too; numbers are [events]; a tensor is what it is."""
    if isinstance(values, (torch.Tensor, Ragged)):
        return values
    if values and isinstance(values[0], bytes):
        return Ragged.from_lists([list(value) for value in values], torch.uint8)
    if values and isinstance(values[0], list):
        flat = [value for row in values for value in row]
        return Ragged.from_lists(values, torch.float32 if any(isinstance(v, float) for v in flat) else torch.int64)
    return torch.tensor(values, dtype=torch.float32 if isinstance(values[0], float) else torch.int64)


def events(first=0, **columns):
    made = {name: column(values) for name, values in columns.items()}
    count = (
        len(next(iter(columns.values())))
        if not isinstance(next(iter(made.values())), Ragged)
        else (next(iter(made.values())).num_rows)
    )
    return Batch(made, first=first, last=first + count)


def kept(mask):
    return mask.nonzero().squeeze(1).tolist()


def check_in_a_chain(step, batch, repeats=3):
    """In a pipeline, the step says its columns, keeps to them and resumes exactly."""
    schema = Schema(tuple((name, dtype_of(values)) for name, values in batch.columns.items()))

    def make():
        size = len(batch)
        batches = [Batch(batch.columns, first=i * size, last=(i + 1) * size) for i in range(repeats)]
        return Pipeline(BatchList(batches, schema)).transform(step)

    assert make().schema == schema_after(step, schema)
    for changed in make():
        assert {name: dtype_of(values) for name, values in changed.columns.items()} == dict(make().schema.columns)
    assert_resume_is_exact(make)
