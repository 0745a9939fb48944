"""The made-up world of movies keeps what its docstring promises."""

import math
import threading

import numpy as np
import pytest

from monolith.data import MOVIE_SCHEMA, EventLogSource, MovieEvents, append_forever, log_length
from monolith.data.synthetic.latent_taste import LatentTaste, movie_traits


def pairwise_auc(labels, scores):
    """The definition, pair by pair."""
    liked, other = scores[labels == 1][:, None], scores[labels == 0][None, :]
    return float((liked > other).mean() + 0.5 * (liked == other).mean())


@pytest.mark.parametrize("first", [0, 5, 8_190, 123_456_789_012])
def test_events_are_the_same_however_they_are_asked_for(first):
    whole = MovieEvents(3).events(first, 20_000)
    world = MovieEvents(3)
    cuts = [0, 1, 2, 10, 8_191, 8_192, 8_193, 20_000]
    for begin, end in reversed(list(zip(cuts[:-1], cuts[1:], strict=True))):
        part = world.events(first + begin, end - begin)
        for name in MOVIE_SCHEMA.names:
            np.testing.assert_array_equal(part[name], whole[name][begin:end])


def test_columns_have_the_types_of_the_schema_and_belong_to_the_caller():
    world = MovieEvents(3)
    events = world.events(10, 100)
    assert {name: str(column.dtype) for name, column in events.items()} == dict(MOVIE_SCHEMA.columns)
    assert events["seq"].tolist() == list(range(10, 110))
    for column in events.values():
        column[:] = 0
    assert world.events(10, 1)["uid"][0] >= 1
    assert all(len(column) == 0 for column in world.events(10, 0).values())


def test_seeds_make_different_worlds():
    assert not np.array_equal(MovieEvents(1).events(0, 100)["uid"], MovieEvents(2).events(0, 100)["uid"])


def test_event_time_goes_on():
    events = MovieEvents(3, events_per_second=100, start_time=1_000).events(0, 1_000)
    assert events["req_time"].tolist() == [1_000 + seq // 100 for seq in range(1_000)]


def test_new_movies_come_out_and_are_watched():
    world = MovieEvents(3, movies=1_000, new_movies_per_second=5)  # 10,000 events are a second
    for seconds in (0, 10, 100):
        movies = world.events(seconds * 10_000, 10_000)["mov"]
        released = 1_000 + 5 * seconds
        assert movies.min() >= 1 and movies.max() <= released + 4
        if seconds:
            # 0.3 of the events prefer what is new; a movie of the last second is no rarity.
            assert 0.02 < (movies > released - 5).mean() < 0.3
    assert not (MovieEvents(3, movies=1_000, new_movies_per_second=0).events(10**6, 50_000)["mov"] > 1_000).any()


def test_traits_do_not_depend_on_how_large_the_catalogue_has_become():
    far = 10**9  # a catalogue beyond what is kept: the same movies must have the same traits
    movies = np.array([0, 7, 4_999, 2**20 - 1])
    near = LatentTaste(3, 10, drift_seconds=math.inf, common=1.0, own=1.0)
    users, seconds = np.zeros(5, np.int64), np.zeros(5)
    kept = near.appeal(users[:4], movies, seconds[:4])
    np.testing.assert_array_equal(kept, near.appeal(users, np.append(movies, far), seconds)[:4])


def test_traits_are_normal_and_unrelated():
    traits = movie_traits(3, np.arange(100_000))
    assert np.abs(traits.mean(axis=0)).max() < 0.02
    assert np.abs(np.cov(traits.T) - np.eye(4)).max() < 0.03
    assert np.abs(np.corrcoef(traits[1:, 0], traits[:-1, 0])[0, 1]) < 0.02


def test_popularity_follows_zipf():
    events = MovieEvents(3, movies=1_000, new_share=0.0).events(0, 400_000)
    counts = np.sort(np.bincount(events["mov"]))[::-1]
    ranks = np.arange(10, 300)  # beyond the first few, where the continuous form and the sum are alike
    slope = np.polyfit(np.log(ranks), np.log(counts[ranks - 1]), 1)[0]
    assert slope == pytest.approx(-0.9, abs=0.06)
    users = np.bincount(events["uid"], minlength=20_001)[1:]
    assert users[:2_000].sum() > 3 * users[-2_000:].sum()


def test_planted_probabilities_are_calibrated():
    world = MovieEvents(3)
    likes, probability = world.events(0, 200_000)["label"], world.probabilities(0, 200_000)
    for low in np.arange(0, 1, 0.1):
        inside = (probability >= low) & (probability < low + 0.1)
        n = inside.sum()
        assert n > 1_000
        standard_error = math.sqrt((probability[inside] * (1 - probability[inside])).sum()) / n
        assert abs(likes[inside].mean() - probability[inside].mean()) < 4 * standard_error


def test_the_planted_auc_is_the_auc_of_the_planted_probabilities():
    world = MovieEvents(3)
    labels = world.events(500, 3_000)["label"]
    assert world.planted_auc(500, 3_000) == pytest.approx(
        pairwise_auc(labels, world.probabilities(500, 3_000)), abs=1e-12
    )
    stopped = world.probabilities(500, 3_000, as_of=0)
    assert world.planted_auc(500, 3_000, as_of=0) == pytest.approx(pairwise_auc(labels, stopped), abs=1e-12)
    np.testing.assert_allclose(world.probabilities(500, 1, as_of=500), world.probabilities(500, 1), rtol=1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_model_that_stops_learning_falls_behind(seed):
    world = MovieEvents(seed, new_movies_per_second=0)  # drift alone; tastes are all new after 120 seconds
    behind = [
        world.planted_auc(first, 30_000) - world.planted_auc(first, 30_000, as_of=0)
        for first in (0, 300_000, 600_000, 900_000, 1_200_000)
    ]
    assert behind[0] < 0.02
    assert all(later > sooner for sooner, later in zip(behind[:-1], behind[1:], strict=True))
    assert behind[-1] > 0.1
    assert world.planted_auc(1_200_000, 30_000) > 0.8


def test_without_drift_and_new_movies_nothing_is_lost():
    world = MovieEvents(3, new_movies_per_second=0, drift_seconds=math.inf)
    assert world.planted_auc(10**7, 20_000, as_of=0) == world.planted_auc(10**7, 20_000)


def test_a_stopped_model_knows_nothing_of_movies_that_came_later():
    world = MovieEvents(3, movies=1_000, drift_seconds=math.inf, like_bias=-0.5)
    movies = world.events(10**6, 20_000)["mov"]
    stopped, live = world.probabilities(10**6, 20_000, as_of=0), world.probabilities(10**6, 20_000)
    later = movies > 1_000
    assert later.any()
    np.testing.assert_allclose(stopped[later], 1 / (1 + math.exp(0.5)))
    np.testing.assert_allclose(stopped[~later], live[~later])


@pytest.mark.parametrize(
    "settings", [{"users": 0}, {"movies": 0}, {"drift_seconds": 0.0}, {"new_share": 1.5}, {"new_movies_per_second": -1}]
)
def test_an_impossible_world_is_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        MovieEvents(1, **settings)


def test_appending_goes_on_where_the_log_ended(tmp_path):
    world, stop = MovieEvents(3), threading.Event()
    assert append_forever(tmp_path, world, rate_per_second=1e6, stop=stop, limit=3_000) == 3_000
    assert append_forever(tmp_path, MovieEvents(3), rate_per_second=1e6, stop=stop, limit=10_000) == 10_000
    (batch,) = EventLogSource(tmp_path, batch_size=10_000)
    for name, column in world.events(0, 10_000).items():
        np.testing.assert_array_equal(batch.columns[name].numpy(), column)


def test_appending_keeps_to_its_rate_and_stops_when_told(tmp_path):
    world, stop = MovieEvents(3), threading.Event()
    threading.Timer(0.5, stop.set).start()
    length = append_forever(tmp_path, world, rate_per_second=2_000, stop=stop)
    assert length == log_length(tmp_path)
    assert 200 < length < 1_600  # 1,000, but for a busy machine
    assert append_forever(tmp_path, world, rate_per_second=2_000, stop=stop) == length  # already told
    with pytest.raises(ValueError, match="rate_per_second"):
        append_forever(tmp_path, world, rate_per_second=0, stop=stop)
