"""A job whose quality can be measured: planted tastes, learned by one process or by many."""

import math
from pathlib import Path
from typing import Any

import torch

import monolith as mono
from monolith.data import MovieEvents
from monolith.model.zoo.movie_ranking import MovieRanking
from tests.train.job.counting_job import Slow, config_of

NUM_EVALUATED = 400_000


class Movies(MovieRanking):
    """Learns from the first events of a world without drift, and is evaluated on later ones."""

    def input_fn(self, mode):
        world = MovieEvents(5, users=500, movies=200, new_movies_per_second=0.0, new_share=0.0, drift_seconds=math.inf)
        if mode == mono.TRAIN:
            return mono.data.synthetic(world, batch_size=256, count=self.params["events"])
        return mono.data.arrays(world.events(self.params["events"], NUM_EVALUATED), batch_size=1000)


def movie_part(model_dir: str, num_events: int, holds_after: float = math.inf, **role: Any) -> None:
    """Be a process of a job; it waits for the file `go` after so many steps."""
    torch.set_num_threads(1)
    config = config_of(Path(model_dir), **{"save_checkpoints_steps": 200, "operation_timeout_in_ms": 20_000, **role})
    hooks = [Slow(Path(model_dir), role["index"], 0.0, holds_after)] if holds_after < math.inf else []
    mono.Estimator(Movies, config, params={"events": num_events}).train(hooks=hooks)


def found_later(model_dir: Path, num_events: int) -> dict[str, float]:
    """Loss and metrics of the newest snapshot on later events."""
    return mono.Estimator(Movies, config_of(model_dir), params={"events": num_events}).evaluate()


def auc(model_dir: Path, num_events: int) -> float:
    """The AUC of the newest snapshot on later events."""
    return found_later(model_dir, num_events)["auc"]
