"""A trainer of DeepFM, or the parameter server of one: a process of its own for each.

All trainers take the same steps over batches that were made before the clock starts. The one with a parameter server
works ahead by one batch, as a worker of a job does with `max_staleness=1`: while the net runs on one batch, a thread
pushes the gradients of the batch before, lets the owner step the dense weights, and pulls the rows of the next batch.
So rows and weights lack at most the last push.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.clicks.record_files import COLUMNS
from benchmarks.peers.clicks.shape import ID_NAMES
from benchmarks.peers.protocol import Operation, serve
from monolith._core import native
from monolith.data import CriteoEvents, arrays
from monolith.data.batch import Column
from monolith.embedding import MultiTable
from monolith.model import Lookup, Mode, Pulled, dry_run, make_tables, run_dense
from monolith.model.zoo.deepfm import DeepFM
from monolith.parallel import DenseShard, RemoteDense, RemoteTables, TableServer
from monolith.parallel.remote_dense import PackedGradients
from monolith.wire import SharedSecret, listen

ADDRESSES_NAME = "training_addresses.json"
_WORLD = 11
_FILL_ROWS = 1 << 18
_running: list[object] = []

Columns = dict[str, Column]


class Trainer:
    """DeepFM with its batches; what a step does with rows and weights is plugged in."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Make the model, and the batches of a round."""
        torch.manual_seed(1)
        params = DeepFM.params()
        params.set(dim=settings["dim"], hidden=tuple(settings["hidden"]))
        self.model = DeepFM(params)
        world = CriteoEvents(_WORLD, num_ids=settings["num_ids"])
        self.table_rows = [min(size, settings["max_table_rows"]) for size in world.vocabulary_sizes]
        size, steps = settings["batch_size"], settings["num_steps"]
        events = {name: torch.as_tensor(value) for name, value in world.events(0, size * steps).items()}
        for name, rows in zip(ID_NAMES, self.table_rows, strict=True):
            events[name] = events[name] % rows + 1  # known ids alone: both sides then have the same rows all the time
        self.batches: list[Columns] = [
            {name: events[name][begin : begin + size] for name in COLUMNS} for begin in range(0, size * steps, size)
        ]
        tried = dry_run(self.model, arrays(self.batches[0], batch_size=size).schema)
        self.plan, self.layouts = tried.plan, tried.layouts
        self.optimizer = tried.specs[Mode.TRAIN].optimizer
        self.num_steps = 0

    def tables(self) -> MultiTable:
        """Return tables with a row for every id."""
        tables = make_tables(self.plan)
        for name, count in zip(ID_NAMES, self.table_rows, strict=True):
            for begin in range(0, count, _FILL_ROWS):
                ids = torch.arange(begin + 1, min(begin + _FILL_ROWS, count) + 1)
                tables[name].apply_gradients(ids, torch.zeros(len(ids), tables[name].dim))
        return tables

    def backward(self, pulled: Pulled, columns: Columns) -> None:
        """Compute the gradients of rows and weights."""
        spec = run_dense(self.model, pulled.slices, columns, Mode.TRAIN)
        assert spec.loss is not None
        self.model.backward(spec.loss)
        self.num_steps += 1


def in_one_process(settings: Mapping[str, Any]) -> Callable[[], None]:
    """Return a function that trains one round with tables and weights of this process."""
    trainer = Trainer(settings)
    lookup = Lookup(trainer.plan, trainer.tables(), trainer.layouts)

    def train() -> None:
        for columns in trainer.batches:
            pulled = lookup.pull(columns)
            trainer.backward(pulled, columns)
            lookup.push(pulled, global_step=trainer.num_steps)
            trainer.model.dense_step(trainer.optimizer)
            trainer.model.zero_grad()

    return train


def with_parameter_server(settings: Mapping[str, Any]) -> Callable[[], None]:
    """Return a function that trains one round with the tables and weights of the server's process."""
    trainer, folder = Trainer(settings), Path(settings["folder"])
    addresses, secret = json.loads((folder / ADDRESSES_NAME).read_text()), SharedSecret.of_folder(folder)
    configs, plan_hash = trainer.plan.tables(), trainer.plan.hash
    tables = RemoteTables(configs, [addresses["tables"]], plan_hash=plan_hash, secret=secret)
    lookup = Lookup(trainer.plan, tables, trainer.layouts)  # type: ignore[arg-type]
    dense = RemoteDense([addresses["dense"]], plan_hash=plan_hash, secret=secret)
    dense.create(trainer.model, trainer.optimizer)
    thread = ThreadPoolExecutor(1, initializer=native.work_alone)
    _running.extend([tables, dense, thread])

    def push(pulled: Pulled, gradients: PackedGradients, step: int) -> None:
        lookup.push(pulled, global_step=step)
        dense.send(gradients)

    def train() -> None:
        here = thread.submit(lookup.pull, trainer.batches[0])
        for columns, following in zip(trainer.batches, [*trainer.batches[1:], None], strict=True):
            pulled = here.result()
            if following is not None:
                here = thread.submit(lookup.pull, following)
            dense.assign()
            trainer.backward(pulled, columns)
            pushed = thread.submit(push, pulled, dense.packed(), trainer.num_steps)
            trainer.model.zero_grad()
        pushed.result()

    return train


def start_server(settings: Mapping[str, Any]) -> None:
    """Serve tables and dense weights, and write the addresses into the folder."""
    folder = Path(settings["folder"])
    secret, trainer = SharedSecret.of_folder(folder), Trainer(settings)
    tables = TableServer(trainer.tables(), plan_hash=trainer.plan.hash, secret=secret)
    dense = listen("127.0.0.1:0", DenseShard().answer, secret=secret)
    _running.extend([tables, dense])
    addresses = {"tables": str(tables.address), "dense": str(dense.address)}
    (folder / ADDRESSES_NAME).write_text(json.dumps(addresses))


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Become what the settings say: "server", "worker" or "alone"."""
    torch.set_num_threads(settings["num_threads"] or len(os.sched_getaffinity(0)))
    if settings["role"] == "server":
        start_server(settings)
        return {}
    train = (in_one_process if settings["role"] == "alone" else with_parameter_server)(settings)

    def round_of(seed: int) -> tuple[float, int]:
        del seed
        begun = time.perf_counter()
        train()
        return time.perf_counter() - begun, 0

    return {"train": round_of}


if __name__ == "__main__":
    serve(setup)
