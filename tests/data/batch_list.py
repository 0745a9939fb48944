"""A source of given batches, and batches whose every value follows from the row's number."""

import copy

import torch

from monolith.data import Batch, Schema
from monolith.data.source import check_shard
from monolith.tensors import Ragged

SCHEMA = Schema.of(row="int64", ids="int64[]", label="float32", data_source_key="int64")
UNEVEN = (3, 1, 4, 1, 5, 2, 6)


class BatchList:
    """Given batches as a source; its position is how many were yielded."""

    def __init__(self, batches, schema=SCHEMA):
        self.schema = schema
        self._batches = list(batches)
        self._position = 0
        self.num_reads = 0

    def __iter__(self):
        while self._position < len(self._batches):
            self._position += 1
            self.num_reads += 1
            yield self._batches[self._position - 1]

    def state(self):
        return {"position": self._position}

    def restore(self, state):
        self._position = state["position"]

    def shard(self, num_shards, index):
        check_shard(num_shards, index)
        part = copy.copy(self)
        part._batches = self._batches[index::num_shards]
        part._position = part.num_reads = 0
        return part


class FailingOnce(BatchList):
    """Given batches as a source that fails at its second batch, and not again."""

    has_failed = False

    def __iter__(self):
        for batch in super().__iter__():
            if self._position == 2 and not self.has_failed:
                self.has_failed = True
                self._position -= 1
                raise OSError("gone")
            yield batch


def made_batch(first, count, keys=(0,)):
    rows = torch.arange(first, first + count)
    lengths = rows % 3
    return Batch(
        columns={
            "row": rows,
            "ids": Ragged.from_row_lengths(torch.repeat_interleave(rows, lengths) * 10, lengths),
            "label": (rows % 2).float(),
            "data_source_key": torch.tensor(keys)[rows % len(keys)],
        },
        first=first,
        last=first + count,
    )


def made_source(sizes=UNEVEN, keys=(0,)):
    """Rows 0, 1, 2, ... in batches of the given sizes."""
    batches, first = [], 0
    for size in sizes:
        batches.append(made_batch(first, size, keys))
        first += size
    return BatchList(batches)


def rows_of(source):
    """The row numbers of each batch."""
    return [batch.columns["row"].tolist() for batch in source]


def flat(lists):
    return [value for values in lists for value in values]


def check_rows(batch):
    """The other columns must still belong to the row."""
    for row, ids, label in zip(
        batch.columns["row"].tolist(), batch.columns["ids"].to_list(), batch.columns["label"].tolist(), strict=True
    ):
        assert ids == [row * 10] * (row % 3)
        assert label == row % 2
