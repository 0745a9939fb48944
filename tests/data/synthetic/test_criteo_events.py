"""The made-up world of ads keeps what its docstring promises."""

import math

import numpy as np
import pytest
import torch

from monolith.data import assert_resume_is_exact
from monolith.data.synthetic import CRITEO_SCHEMA, CriteoEvents, MovieEvents, SyntheticSource
from monolith.data.synthetic.criteo_events import ID_NAMES, vocabulary_sizes


def pairwise_auc(labels, scores):
    """The definition, pair by pair."""
    clicked, other = scores[labels == 1][:, None], scores[labels == 0][None, :]
    return float((clicked > other).mean() + 0.5 * (clicked == other).mean())


def test_columns_are_those_of_criteo():
    events = CriteoEvents(3).events(10, 100)
    assert list(events) == ["label", "dense", *(f"C{n}" for n in range(1, 27)), "req_time"] == list(CRITEO_SCHEMA.names)
    for name, kind in CRITEO_SCHEMA.types.items():
        assert events[name].dtype == kind.numpy_dtype and events[name].shape == (100, *kind.event_shape)
        assert events[name].flags.c_contiguous
    assert set(events["label"]) == {0, 1}
    assert events["dense"].min() >= 0


@pytest.mark.parametrize("first", [0, 5, 8_190, 123_456_789_012])
def test_events_are_the_same_however_they_are_asked_for(first):
    whole = CriteoEvents(3).events(first, 20_000)
    world = CriteoEvents(3)
    cuts = [0, 1, 10, 8_191, 8_192, 8_193, 20_000]
    for begin, end in reversed(list(zip(cuts[:-1], cuts[1:], strict=True))):
        part = world.events(first + begin, end - begin)
        for name in CRITEO_SCHEMA.names:
            np.testing.assert_array_equal(part[name], whole[name][begin:end])
    for column in whole.values():
        column[:] = 0
    assert world.events(first, 1)["C1"][0] >= 1
    assert all(len(column) == 0 for column in world.events(first, 0).values())
    assert not np.array_equal(CriteoEvents(4).events(first, 100)["C4"], world.events(first, 100)["C4"])


def test_vocabularies_differ_in_size():
    assert sum(vocabulary_sizes(50_000_000)) == 50_000_000
    sizes = sorted(vocabulary_sizes(1_000_000))
    assert sizes[0] == 3 and sum(sizes) == 1_000_000
    assert all(small < large < 2 * small + 3 for small, large in zip(sizes[:-1], sizes[1:], strict=True))
    assert vocabulary_sizes(78) == (3,) * 26
    with pytest.raises(ValueError, match="num_ids must be at least 78, got 77"):
        CriteoEvents(1, num_ids=77)


def test_ids_lie_in_their_vocabularies_and_follow_zipf():
    world = CriteoEvents(3, num_ids=1_000_000, new_share=0.0)
    events = world.events(0, 200_000)
    for name, size in zip(ID_NAMES, world.vocabulary_sizes, strict=True):
        assert events[name].min() == 1 and events[name].max() <= size
    largest = ID_NAMES[int(np.argmax(world.vocabulary_sizes))]
    counts = np.bincount(events[largest])
    ranks = np.arange(5, 100)
    assert np.polyfit(np.log(ranks), np.log(counts[ranks]), 1)[0] == pytest.approx(-1.1, abs=0.08)
    assert len(np.unique(events[largest])) > 20_000


def test_new_ids_come_up_and_are_chosen():
    world = CriteoEvents(3, num_ids=100_000, new_ids_per_second=1_000)  # 10,000 events are a second
    place = int(np.argmax(world.vocabulary_sizes))
    size = world.vocabulary_sizes[place]
    for seconds in (0, 10, 100):
        ids = world.events(seconds * 10_000, 10_000)[ID_NAMES[place]]
        released = size + size * seconds / 100  # a thousand a second of a hundred thousand
        assert ids.max() <= released + size / 100
        assert ids.max() > released - size / 100
        if seconds:
            # 0.05 of the ids are chosen by how new they are.
            assert (ids > size).mean() == pytest.approx(0.04, abs=0.015)
    never = CriteoEvents(3, num_ids=100_000, new_ids_per_second=0).events(10**7, 20_000)
    assert never[ID_NAMES[place]].max() <= size


def test_favourites_keep_their_share_beside_new_ids():
    world = CriteoEvents(3, num_ids=100_000, new_share=0.4, new_ids_per_second=1_000)
    ids = np.stack([world.events(5 * 10**6, 100_000)[name] for name in ID_NAMES])
    sizes = np.array(world.vocabulary_sizes)
    # Where the continuous distribution has its first rank, of those not chosen for being new.
    expected = 0.6 * (1 - 2**-0.1) / (1 - (sizes + 1.0) ** -0.1)
    large = sizes > 100  # of which the first id is not new any more
    np.testing.assert_allclose((ids == 1).mean(axis=1)[large], expected[large], atol=0.005)


def test_planted_probabilities_are_calibrated_and_give_the_planted_auc():
    world = CriteoEvents(3)
    clicks, probability = world.events(0, 100_000)["label"], world.probabilities(0, 100_000)
    for low in np.arange(0, 0.8, 0.1):
        inside = (probability >= low) & (probability < low + 0.1)
        standard_error = math.sqrt((probability[inside] * (1 - probability[inside])).sum()) / inside.sum()
        assert abs(clicks[inside].mean() - probability[inside].mean()) < 4 * standard_error
    assert 0.2 < clicks.mean() < 0.35
    assert world.planted_auc(500, 3_000) == pytest.approx(
        pairwise_auc(clicks[500:3_500], probability[500:3_500]), abs=1e-12
    )
    assert 0.75 < world.planted_auc(0, 50_000) < 0.9


def test_a_logistic_regression_recovers_the_planted_auc():
    world = CriteoEvents(3, num_ids=600, drift_seconds=math.inf, new_ids_per_second=0)
    events, held_out = world.events(0, 30_000), world.events(30_000, 4_000)
    sizes = np.array([0, *world.vocabulary_sizes]).cumsum()

    def features(columns):
        ids = np.stack([columns[name] - 1 for name in ID_NAMES], 1) + sizes[:-1]
        return torch.from_numpy(ids), torch.from_numpy(columns["dense"])

    ids, dense = features(events)
    labels = torch.from_numpy(events["label"])
    weights = torch.zeros(sizes[-1] + 1, requires_grad=True)
    dense_weights = torch.zeros(13, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.Adam([weights, dense_weights, bias], lr=0.15)
    for _ in range(40):
        optimizer.zero_grad()
        logits = weights[ids].sum(1) + dense @ dense_weights + bias
        torch.nn.functional.binary_cross_entropy_with_logits(logits, labels).backward()
        optimizer.step()
    ids, dense = features(held_out)
    scores = (weights[ids].sum(1) + dense @ dense_weights).detach().numpy()
    assert world.planted_auc(30_000, 4_000) > 0.75
    assert pairwise_auc(held_out["label"], scores) > world.planted_auc(30_000, 4_000) - 0.015


def test_a_model_that_stops_learning_falls_behind():
    world = CriteoEvents(3, drift_seconds=100, new_ids_per_second=0)
    behind = [
        world.planted_auc(first, 20_000) - world.planted_auc(first, 20_000, as_of=0)
        for first in (0, 250_000, 500_000, 750_000, 1_000_000)
    ]
    assert behind[0] < 0.01 and behind[-1] > 0.2
    assert all(later > sooner for sooner, later in zip(behind[:-1], behind[1:], strict=True))
    still = CriteoEvents(3, drift_seconds=math.inf, new_ids_per_second=0)
    assert still.planted_auc(10**7, 10_000, as_of=0) == pytest.approx(still.planted_auc(10**7, 10_000), abs=1e-12)


def test_a_stopped_model_knows_nothing_of_ids_that_came_later():
    world = CriteoEvents(3, num_ids=10_000, drift_seconds=math.inf, new_share=0.5, new_ids_per_second=1_000)
    assert world.planted_auc(10**6, 20_000, as_of=0) < world.planted_auc(10**6, 20_000) - 0.05
    assert len(world.probabilities(0, 0, as_of=0)) == 0


@pytest.mark.parametrize(
    "settings", [{"events_per_second": 0}, {"drift_seconds": 0.0}, {"new_share": 1.5}, {"new_ids_per_second": -1}]
)
def test_an_impossible_world_is_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        CriteoEvents(1, **settings)
    with pytest.raises(ValueError, match="first and count"):
        CriteoEvents(1).events(-1, 2)


@pytest.mark.parametrize("generator", [CriteoEvents(3, num_ids=1_000), MovieEvents(3)], ids=["criteo", "movies"])
def test_a_source_of_made_up_events(generator):
    first, second = SyntheticSource(generator, 4, count=6)
    assert (first.last, second.first, second.last) == (4, 4, 6)
    expected = generator.events(4, 2)
    assert list(second.columns) == list(generator.schema.names)
    for name, column in second.columns.items():
        np.testing.assert_array_equal(column.numpy(), expected[name])
    assert_resume_is_exact(lambda: SyntheticSource(generator, 3, count=20))
    assert_resume_is_exact(lambda: SyntheticSource(generator, 3).shard(2, 1), max_batches=5)
    starts = [[batch.first for batch in SyntheticSource(generator, 3, count=20).shard(3, i)] for i in range(3)]
    assert starts == [[0, 9, 18], [3, 12], [6, 15]]
    with pytest.raises(ValueError, match="count must not be negative"):
        SyntheticSource(generator, 3, count=-1)
