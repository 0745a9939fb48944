"""How much of the reading a training loop no longer waits for, once it is done ahead."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.data.records import DENSE_NAMES, ID_NAMES, LABEL, parsed_source
from benchmarks.data.sizes import DataSizes
from benchmarks.machine import num_cores
from benchmarks.measure import Contender, interleave, timed
from monolith import HashEmbedding
from monolith._core import native
from monolith.data import Batch, Pipeline
from monolith.data.prefetch import Prefetched


class DeepFm(nn.Module):
    """Pairs of features by their inner products, and dense layers over all rows and numbers."""

    def __init__(self, sizes: DataSizes) -> None:
        """Start with an empty table for the ids of all features."""
        super().__init__()
        self.rows = HashEmbedding(sizes.embedding_dim, fused=True)
        widths = (len(ID_NAMES) * sizes.embedding_dim + len(DENSE_NAMES), *sizes.hidden)
        layers: list[nn.Module] = []
        for before, after in zip(widths[:-1], widths[1:], strict=True):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.deep = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        """Return the logits of a batch."""
        rows: Tensor = self.rows(ids)
        pairs = rows.sum(1).square().sum(1) - rows.square().sum((1, 2))
        deep: Tensor = self.deep(torch.cat([rows.flatten(1), dense], 1))
        return deep.squeeze(1) + 0.5 * pairs


class Trainer:
    """Trains the model, batch by batch."""

    def __init__(self, sizes: DataSizes) -> None:
        """Start with a model that has seen nothing."""
        self._model = DeepFm(sizes)
        self._optimizer = torch.optim.Adagrad(self._model.deep.parameters(), lr=0.01)

    def step(self, batch: Batch) -> None:
        """Do one step."""
        columns: dict[str, Any] = dict(batch.columns)
        ids = torch.stack([columns[name] for name in ID_NAMES], 1)
        dense = torch.stack([columns[name] for name in DENSE_NAMES], 1)
        loss = nn.functional.binary_cross_entropy_with_logits(self._model(ids, dense), columns[LABEL])
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._optimizer.zero_grad()


def measure_overlap(files: list[str], sizes: DataSizes) -> dict[str, Any]:
    """Return the seconds of reading, of training and of both at once, and the share of the shorter that is hidden.

    Reading and training get half of the cores each: with all cores at work nothing would be left to hide.
    """
    trainer = Trainer(sizes)
    in_memory = list(parsed_source(files[0], sizes.batch_size))

    def train(batches: Iterable[Batch]) -> None:
        for batch in batches:
            trainer.step(batch)

    def read() -> Pipeline:
        return parsed_source(files, sizes.batch_size).repeat().take(sizes.steps)

    def both() -> None:
        with Prefetched(read().source) as batches:
            train(batches)

    contenders = {
        "read": _contender(lambda: sum(len(batch) for batch in read())),
        "train": _contender(lambda: train(islice(cycle(in_memory), sizes.steps))),
        "both": _contender(both),
    }
    with _half_the_cores():
        samples = interleave(contenders, rounds=sizes.overlap_rounds)
    rounds = zip(*(samples[name].seconds for name in ("read", "train", "both")), strict=True)
    hidden = [(read + train - both) / min(read, train) for read, train, both in rounds]
    num_events = sizes.steps * sizes.batch_size
    return {
        "events": {name: taken.summary(num_events) for name, taken in samples.items()},
        "threads_each": max(1, num_cores() // 2),
        "hidden": statistics.median(hidden),
        "hidden_by_round": [round(share, 3) for share in hidden],
    }


def _contender(action: Callable[[], object]) -> Contender:
    return lambda seed: timed(action)


@contextmanager
def _half_the_cores() -> Iterator[None]:
    before = native.num_threads(), torch.get_num_threads()
    half = max(1, num_cores() // 2)
    native.set_num_threads(half)
    torch.set_num_threads(half)
    try:
        yield
    finally:
        native.set_num_threads(before[0])
        torch.set_num_threads(before[1])
