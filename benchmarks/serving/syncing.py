"""Deltas to a server: how fast rows arrive, and what answers wait while they do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import Samples, interleave, timed
from benchmarks.serving.clicks import GENERATION, Clicks
from benchmarks.serving.sizes import ServingSizes
from monolith.delta import DeltaPosition, DeltaSender, DeltaSettings
from monolith.delta.serving_tables import to_serving
from monolith.embedding import Fp16Compressor, MultiTable
from monolith.wire import SharedSecret


class Trainer:
    """Changes rows of the tables in training, and sends what changed to a server."""

    def __init__(self, clicks: Clicks, base: Path, sync_address: str) -> None:
        """Follow on from the export that the server loaded."""
        self._tables = clicks.tables
        self._sender = DeltaSender(
            clicks.tables,
            plan_hash=clicks.plan.hash,
            generation=GENERATION,
            targets=[sync_address],
            base=DeltaPosition(GENERATION, 0),
            settings=DeltaSettings(secret=SharedSecret.of_folder(base)),
        )

    def change(self, num_rows: int, seed: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Give some rows of every table other values; return them."""
        generator = torch.Generator().manual_seed(seed)
        per_table = num_rows // len(self._tables.names)
        rows = {}
        for name, table in self._tables.tables.items():
            ids = torch.randperm(len(table), generator=generator)[:per_table] + 1
            rows[name] = ids, 0.1 * torch.randn(per_table, table.dim, generator=generator)
        self._tables.assign(rows)
        return rows

    def push(self) -> None:
        """Send what changed."""
        report = self._sender.push_once()
        for error in report.failures.values():
            raise error

    @contextmanager
    def pushing(self, sizes: ServingSizes) -> Iterator[None]:
        """Change and send rows again and again while the block runs."""
        stop = threading.Event()
        errors: list[BaseException] = []

        def work() -> None:
            seed = 0
            try:
                while not stop.wait(sizes.sync_every_seconds):
                    self.change(sizes.num_rows_per_sync, seed)
                    self.push()
                    seed += 1
            except BaseException as error:  # noqa: BLE001  raised again where the block ends
                errors.append(error)

        thread = threading.Thread(target=work, name="trainer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(60)
        if errors:
            raise errors[0]


def measure_sync(trainer: Trainer, clicks: Clicks, sizes: ServingSizes) -> dict[str, Samples]:
    """Return the seconds of a large delta over the wire, and of the same rows assigned to tables in this process."""
    served = MultiTable({name: to_serving(table).config for name, table in clicks.tables.tables.items()})
    served.assign(trainer.change(sizes.num_synced_rows, 0))
    trainer.push()

    def over_the_wire(seed: int) -> float:
        trainer.change(sizes.num_synced_rows, seed)
        return timed(trainer.push)

    def local(seed: int) -> float:
        rows = trainer.change(sizes.num_synced_rows, seed)
        taken = timed(lambda: served.assign(rows))
        trainer.push()  # else the next delta would bring these rows too
        return taken

    return interleave({"sync": over_the_wire, "apply": local}, rounds=sizes.rounds)


def table_bytes(clicks: Clicks) -> dict[str, Any]:
    """Return the memory of the tables in training, and of the same rows served as fp16."""
    tables = clicks.tables.tables.values()
    return {
        "train": sum(table.memory().bytes_total for table in tables),
        "fp16": sum(to_serving(table, Fp16Compressor()).memory().bytes_total for table in tables),
    }
