"""A model comes as close to the best possible AUC as the events it saw allow."""

import math

import monolith as mono
from monolith.data import MovieEvents, synthetic
from monolith.model.zoo.movie_ranking import MovieRanking

NUM_TRAINED, NUM_TESTED = 600_000, 100_000
WORLD = MovieEvents(1, users=40, movies=20, new_movies_per_second=0, new_share=0, drift_seconds=math.inf)


class Movies(MovieRanking):
    """Trains on the first events of a world in which nothing changes, and is tested on those that follow."""

    def input_fn(self, mode):
        if mode == mono.TRAIN:
            return synthetic(WORLD, batch_size=2048, count=NUM_TRAINED)
        source = synthetic(WORLD, batch_size=2048, count=NUM_TRAINED + NUM_TESTED)
        source.restore({"row": NUM_TRAINED})
        return source


def test_the_planted_auc_is_reached(tmp_path):
    estimator = mono.Estimator(Movies, mono.RunConfig(model_dir=tmp_path, log_step_count_steps=0))
    estimator.train()
    found = estimator.evaluate()
    assert found["num_events"] == NUM_TESTED
    best = WORLD.planted_auc(NUM_TRAINED, NUM_TESTED)
    assert best - 0.002 < found["auc"] < best + 0.001  # above it there is luck only, or a look at the labels
    assert abs(found["calibration"] - 1) < 0.02
