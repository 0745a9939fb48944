"""A process that holds one shard: commands come as lines of JSON, files carry everything else."""

import json
import subprocess
import sys

import torch

import monolith as mono
from monolith.checkpoint.shards import TableShard
from monolith.data import Schema
from monolith.embedding import SgdOptimizer, ZerosInitializer
from monolith.model import make_plan


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


def serve(index, num_shards):
    holder = Holder(index, num_shards)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            owner = holder if hasattr(holder, name) else holder.shard
            answer = {"value": getattr(owner, name)(*arguments)}
        except Exception as error:  # noqa: BLE001  told to the other process
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


class ShardProcess:
    """A shard in a process of its own, seen from here."""

    def __init__(self, index, num_shards):
        command = [sys.executable, "-m", "tests.checkpoint.shards.shard_process", str(index), str(num_shards)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __getattr__(self, name):
        def call(*arguments):
            self.process.stdin.write(json.dumps([name, arguments]) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or '{"error": "the process is gone"}')
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer["value"]

        return call

    def end(self):
        self.process.kill()
        self.process.communicate()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
