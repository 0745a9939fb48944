"""A process that holds one shard: commands come through a pipe, files carry everything else."""

import torch

import monolith as mono
from monolith.checkpoint.shards import TableShard
from monolith.data import Schema
from monolith.embedding import SgdOptimizer, ZerosInitializer
from monolith.model import make_plan
from tests.new_processes import PROCESSES


class Model(mono.MonolithModel):
    """Two tables of one float; ids of the second get a row when they are seen a third time."""

    def __init__(self):
        super().__init__()
        one = SgdOptimizer(learning_rate=1.0)
        self.create_embedding_feature_column("uid", optimizer=one, initializer=ZerosInitializer())
        self.create_embedding_feature_column(
            "rare", optimizer=one, initializer=ZerosInitializer(), occurrence_threshold=2, filter_capacity=1000
        )

    def model_fn(self, features, mode):
        user, rare = self.lookup_embedding_slice(["uid", "rare"], slice_dim=1)
        return mono.EstimatorSpec(label=None, pred=user + rare, loss=(user + rare).sum())


PLAN = make_plan(Model(), Schema.of(uid="int64", rare="int64"))


class Holder:
    """A shard, and what a worker would do to it."""

    def __init__(self, index, num_shards):
        self.shard = TableShard(index, num_shards, PLAN, {f"v{index}": torch.zeros(())})

    def add(self, ids, time, table="uid"):
        """Add 1 to the rows of the ids that are its own, and to its dense number."""
        ids = torch.tensor(ids, dtype=torch.int64)
        mine = ids[self.shard.owns(ids)]
        self.shard.tables[table].assign_add(mine, torch.ones(len(mine), 1), time=time)
        for tensor in self.shard.dense.values():
            tensor += 1

    def values(self, ids, table="uid"):
        ids = torch.tensor(ids, dtype=torch.int64)
        mine = ids[self.shard.owns(ids)]
        rows = self.shard.tables[table].lookup(mine)[:, 0].tolist()
        return {
            "dense": {name: tensor.item() for name, tensor in self.shard.dense.items()},
            "rows": dict(zip(map(str, mine.tolist()), rows, strict=True)),
        }


def serve(pipe, index, num_shards):
    holder = Holder(index, num_shards)
    while True:
        name, arguments = pipe.recv()
        try:
            owner = holder if hasattr(holder, name) else holder.shard
            answer = {"value": getattr(owner, name)(*arguments)}
        except Exception as error:  # noqa: BLE001  told to the other process
            answer = {"error": f"{type(error).__name__}: {error}"}
        pipe.send(answer)


class ShardProcess:
    """A shard in a process of its own, seen from here."""

    def __init__(self, index, num_shards):
        self.pipe, pipe_of_child = PROCESSES.Pipe()
        self.process = PROCESSES.Process(target=serve, args=(pipe_of_child, index, num_shards), daemon=True)
        self.process.start()
        pipe_of_child.close()

    def __getattr__(self, name):
        def call(*arguments):
            self.pipe.send((name, arguments))
            answer = self.pipe.recv()
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer["value"]

        return call

    def end(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()
