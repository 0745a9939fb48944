"""An input whose records are numbered, and the processes of a service as functions."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from monolith.data import Batch, Schema
from monolith.data_service import DataWorker, DataWorkerConfig, Dispatcher, DispatcherConfig, ServiceSource
from monolith.tensors import Ragged

BATCH = 4
INPUT = "tests.data_service.numbered_input:make_source"
BROKEN_INPUT = "tests.data_service.numbered_input:make_broken_source"
LARGE_INPUT = "tests.data_service.numbered_input:make_large_source"
NUM_RECORDS = 238
NUM_LARGE = 6_000


class Numbers:
    """Records 0 to `total - 1`; batches go round the shards."""

    schema = Schema.of(seq="int64", tags="int64[]", text="bytes", pair="float32[2]")

    def __init__(self, total: int, fail_at: int | None = None) -> None:
        self.total, self.fail_at = total, fail_at
        self.num_shards, self.index, self.position = 1, 0, 0

    def __iter__(self) -> Iterator[Batch]:
        while (first := (self.position * self.num_shards + self.index) * BATCH) < self.total:
            if self.fail_at is not None and first >= self.fail_at:
                raise OSError(f"the disk has gone at record {first}")
            self.position += 1
            yield numbered_batch(first, min(first + BATCH, self.total))

    def state(self) -> dict[str, int]:
        return {"position": self.position}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.position = state["position"]

    def shard(self, num_shards: int, index: int) -> "Numbers":
        part = Numbers(self.total, self.fail_at)
        part.num_shards, part.index = self.num_shards * num_shards, self.index + index * self.num_shards
        return part


def numbered_batch(first: int, last: int) -> Batch:
    numbers = range(first, last)
    columns = {
        "seq": torch.tensor(numbers),
        "tags": Ragged.from_lists([list(range(n % 3)) for n in numbers], torch.int64),
        "text": Ragged.from_lists([list(str(n).encode()) for n in numbers], torch.uint8),
        "pair": torch.tensor([[n, -n] for n in numbers], dtype=torch.float32),
    }
    return Batch(columns=columns, first=first, last=last, partition="numbers")


def make_source() -> Numbers:
    return Numbers(NUM_RECORDS)


def make_large_source() -> Numbers:
    return Numbers(NUM_LARGE)


def make_broken_source() -> Numbers:
    return Numbers(NUM_RECORDS, fail_at=100)


def seqs(batch: Batch) -> list[int]:
    column = batch.columns["seq"]
    assert not isinstance(column, Ragged)
    numbers: list[int] = column.tolist()
    return numbers


def dispatch(pipe, settings: dict[str, Any]) -> None:
    """Body of a dispatcher process."""
    with Dispatcher(DispatcherConfig(**settings)) as dispatcher:
        pipe.send(dispatcher.address)
        pipe.recv()


def work(pipe, settings: dict[str, Any]) -> None:
    """Body of a worker process."""
    with DataWorker(DataWorkerConfig(**settings)) as worker:
        pipe.send(worker.address)
        worker.wait()


def train(pipe, dispatcher: str, trainer: str, settings: dict[str, Any], state: Any = None) -> None:
    """Body of a trainer process: it sends numbers and state with each batch, and takes the next when it is told to."""
    pipe.send("started")
    with ServiceSource(dispatcher, trainer=trainer, **settings) as source:
        if state is not None:
            source.restore(state)
        for batch in source:
            pipe.send((seqs(batch), source.state()))
            pipe.recv()
    pipe.send(None)
