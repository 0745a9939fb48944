"""A round of a torch trainer: records are read and parsed by Monolith's pipeline, which no other parser outruns."""

from __future__ import annotations

import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from benchmarks.peers.clicks.nets import make_net
from benchmarks.peers.clicks.record_files import read_records
from benchmarks.peers.clicks.shape import ID_NAMES, ClickShape
from benchmarks.peers.protocol import Operation


class TorchClicks(ABC):
    """Net and dense optimizer; sub-classes have the tables."""

    def __init__(self, shape: ClickShape) -> None:
        """Make the net; its optimizer is the one that our models use."""
        torch.set_num_threads(shape.num_threads)
        self.shape = shape
        self.net = make_net(shape)
        self._optimizer = torch.optim.Adagrad(self.net.parameters(), lr=shape.learning_rate, fused=True)
        self._sizes = torch.tensor(shape.table_rows)[:, None]
        self._reading_seconds = 0.0

    @abstractmethod
    def look_up(self, rows: Tensor) -> Tensor:
        """Return [events, features, width] for row numbers [features, events]."""

    @abstractmethod
    def step_rows(self) -> None:
        """Step the tables, unless the backward pass did."""

    def operations(self) -> Mapping[str, Operation]:
        """Return what the peer offers: a round from its records, and the reading's part of the last round."""
        return {"train": self.train, "reading": lambda seed: (self._reading_seconds, 0)}

    def train(self, seed: int) -> tuple[float, int]:
        """Train on the records of a round; returns the seconds, and the checksum of the ids."""
        taken = self._reading_seconds = 0.0
        checksum = 0
        batches = iter(read_records(self.shape.records(seed), self.shape.batch_size))
        for _ in range(self.shape.num_steps):
            start = time.perf_counter()
            columns = next(batches).columns
            ids = torch.stack([columns[name] for name in ID_NAMES])
            read = time.perf_counter()
            self._reading_seconds += read - start
            checksum = zlib.crc32(ids.numpy().data, checksum)
            # Hashing ids to rows is not timed: the peer gets them hashed already.
            rows = ids % self._sizes
            hashed = time.perf_counter()
            self._step(rows, columns["dense"], columns["label"])
            taken += read - start + time.perf_counter() - hashed
        return taken, checksum

    def _step(self, rows: Tensor, dense: Tensor, label: Tensor) -> None:
        logit = self.net(self.look_up(rows), dense)
        loss = nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="sum")
        loss.backward()
        self.step_rows()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        loss.item()
