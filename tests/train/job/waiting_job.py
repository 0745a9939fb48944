"""A job whose events come in two halves: the second one comes once the test has put a file there."""

import time
from pathlib import Path
from typing import Any

import torch

import monolith as mono
from tests.train.job.counting_job import Counting, config_of, events_source

MORE = "more-events"
GIVEN_UP = "given-up.txt"


class Halves:
    """A source that waits in the middle, as one of live events does."""

    def __init__(self, whole: Any, middle: int, path: Path) -> None:
        self._whole, self._middle, self._path = whole, middle, path
        self.schema, self.state, self.restore = whole.schema, whole.state, whole.restore

    def __iter__(self):
        for batch in self._whole:
            while batch.first >= self._middle and not self._path.exists():
                time.sleep(0.02)
            yield batch

    def shard(self, num_shards: int, index: int) -> "Halves":
        return Halves(self._whole.shard(num_shards, index), self._middle, self._path)


class WaitingCounting(Counting):
    """Counts the events of both halves."""

    def input_fn(self, mode):
        count = self.params["events"]
        return Halves(events_source(count), count // 2, Path(self.params["folder"]) / MORE)


class AsksAtTheEnd(mono.Hook):
    """Asks the servers once more when a run ends, as hooks do, and notes each time why that failed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def end(self, context):
        try:
            context.tables.num_rows()
        except Exception as error:
            with (self._folder / GIVEN_UP).open("a") as file:
                file.write(f"{error}\n")
            raise


def take_waiting_part(model_dir: str, num_events: int, **role: Any) -> None:
    """Be a process of the job."""
    torch.set_num_threads(1)
    params = {"events": num_events, "folder": model_dir}
    hooks = [AsksAtTheEnd(Path(model_dir))] if (role["server_type"], role["index"]) == ("worker", 0) else []
    mono.Estimator(WaitingCounting, config_of(Path(model_dir), **role), params=params).train(hooks=hooks)
