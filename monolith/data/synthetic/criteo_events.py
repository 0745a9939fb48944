"""CriteoEvents: clicks on ads with the columns of the Criteo data sets, from a planted logistic model that drifts."""

import math
from typing import Any

import numpy as np

from monolith.data.schema import Schema
from monolith.data.synthetic.latent_taste import Floats, Ints, mix_bits, normals, uniforms
from monolith.data.synthetic.planted import BLOCK, Columns, EventBlocks, area_under_curve, sigmoid

Array = np.ndarray[Any, Any]
NUM_IDS, NUM_DENSE = 26, 13
ID_NAMES = tuple(f"C{number}" for number in range(1, NUM_IDS + 1))
CRITEO_SCHEMA = Schema.of(
    label="float32", dense=f"float32[{NUM_DENSE}]", **dict.fromkeys(ID_NAMES, "int64"), req_time="int64"
)
"""Clicked (1) or not (0), 13 numbers, one id each of 26 features, and seconds since 1970."""

_SMALLEST_VOCABULARY = 3
# Purposes of random numbers; those up to 4 are taken by the other worlds.
_EVENTS, _DENSE_WEIGHTS = 5, 6


class CriteoEvents:
    """A stream of ads clicked or not: endless, the same at every reading, and any part of it made without the rest.

    Every feature has its own vocabulary, from 3 ids to tens of millions, of which few ids make up much of the stream
    (Zipf, exponent 1.1); ids count from 1 in each feature. New ids come up all the time, and the weights of the model
    that clicks are drawn from drift: a model that stops learning falls behind for both reasons.

    >>> world = CriteoEvents(7)
    >>> events = world.events(first=10**9, count=2)
    >>> events["dense"].shape, sorted(events) == sorted(CRITEO_SCHEMA.names)
    ((2, 13), True)

    Args:
        seed: Equal seeds and settings give equal events.
        num_ids: Ids there are at the beginning, over all features.
        events_per_second: Events per second of event time (`req_time`).
        new_ids_per_second: Ids that come up per second of event time, spread over features by their vocabularies.
        new_share: Share of ids that are chosen by how new they are.
        drift_seconds: Event time after which the weights have nothing left of what they were; infinite for no drift.
        click_bias: Log-odds of a click where all else is zero.
        id_strength: Standard deviation of the log-odds due to ids, if all ids were equally frequent.
        dense_strength: Standard deviation of the log-odds due to the dense numbers.
        start_time: `req_time` of the first event.
    """

    schema = CRITEO_SCHEMA

    def __init__(
        self,
        seed: int,
        *,
        num_ids: int = 50_000_000,
        events_per_second: float = 10_000.0,
        new_ids_per_second: float = 500.0,
        new_share: float = 0.05,
        drift_seconds: float = 600.0,
        click_bias: float = -1.5,
        id_strength: float = 1.5,
        dense_strength: float = 0.5,
        start_time: int = 1_700_000_000,
    ) -> None:
        for name, value in {"events_per_second": events_per_second, "drift_seconds": drift_seconds}.items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")
        if not 0 <= seed < 2**64 or new_ids_per_second < 0 or not 0 <= new_share <= 1:
            raise ValueError(
                "seed must be in [0, 2^64), new_ids_per_second not negative and new_share in [0, 1], "
                f"got {seed}, {new_ids_per_second} and {new_share}"
            )
        self.vocabulary_sizes = vocabulary_sizes(num_ids)
        self._seed = seed
        self._sizes = np.array(self.vocabulary_sizes, np.int64)
        self._growth = self._sizes * (new_ids_per_second / num_ids)
        self._events_per_second = events_per_second
        self._new_share = new_share
        self._drift_seconds = drift_seconds
        self._click_bias = click_bias
        self._id_strength = id_strength
        self._dense_strength = dense_strength
        self._start_time = start_time
        self._blocks = EventBlocks(self._make_block)

    def events(self, first: int, count: int) -> Columns:
        """Return events `first` to `first + count - 1`, one array per column of `CRITEO_SCHEMA`."""
        columns = self._blocks.columns(first, count)
        # Rows of features while they are made, columns of events for the caller.
        ids = np.ascontiguousarray(columns["ids"].T)
        named = {"label": columns["label"], "dense": columns["dense"], "req_time": columns["req_time"]}
        named |= {name: ids[place] for place, name in enumerate(ID_NAMES)}
        return {name: named[name] for name in CRITEO_SCHEMA.names}

    def probabilities(self, first: int, count: int, *, as_of: int | None = None) -> Floats:
        """Return the probability of a click that each label was drawn with.

        Args:
            first: Offset of the first event.
            count: Number of events.
            as_of: Give instead what the best model says that learned up to this event and then stopped: weights are
                those of that time, and ids that came up later are to it like any other.
        """
        columns = self._blocks.columns(first, count)
        if as_of is None:
            probability: Floats = columns["probability"]
            return probability
        if not count:
            return np.empty(0)
        ids, then = columns["ids"].T, np.full(count, as_of / self._events_per_second)
        known = ids <= self._num_ids(as_of // BLOCK)[:, None]
        return sigmoid(self._logits(ids, columns["dense"], then, known))

    def planted_auc(self, first: int, count: int, *, as_of: int | None = None) -> float:
        """Return the AUC that no model can beat on these events, but for luck; with `as_of`, that of a stopped one."""
        labels = self._blocks.columns(first, count)["label"]
        return area_under_curve(labels, self.probabilities(first, count, as_of=as_of))

    def _make_block(self, number: int) -> Columns:
        draws = uniforms(self._seed, _EVENTS, number, (NUM_IDS + NUM_DENSE + 1, BLOCK))
        seconds = np.arange(number * BLOCK, (number + 1) * BLOCK) / self._events_per_second
        ids = self._choose_ids(draws[:NUM_IDS], self._num_ids(number))
        # Skewed and never negative, like counts after log(1 + x). A model gets float32: so does the planted one.
        dense = np.ascontiguousarray(-np.log(draws[NUM_IDS:-1]).astype(np.float32).T)
        probability = sigmoid(self._logits(ids, dense, seconds))
        return {
            "label": (draws[-1] < probability).astype(np.float32),
            "dense": dense,
            "ids": ids.T,
            "req_time": self._start_time + seconds.astype(np.int64),
            "probability": probability,
        }

    def _num_ids(self, block: int) -> Ints:
        """Return how many ids each feature has; new ones come up between blocks."""
        seconds = block * BLOCK / self._events_per_second
        return self._sizes + (self._growth * seconds).astype(np.int64)

    def _choose_ids(self, draws: Floats, num_ids: Ints) -> Ints:
        share = self._new_share
        is_new = draws < share
        # Where within its side of the share a draw fell is as random as the draw itself: one serves both choices.
        oldest_first = _steep_ranks(draws if share == 1 else (draws - share) / (1 - share), self._sizes[:, None])
        features, events = np.nonzero(is_new)
        newest_first = _steep_ranks(draws[features, events] / (share or 1), num_ids[features])
        ids: Ints = oldest_first + 1
        ids[features, events] = num_ids[features] - newest_first
        return ids

    def _logits(self, ids: Ints, dense: Array, seconds: Floats, known: Array | None = None) -> Floats:
        anchors = seconds / self._drift_seconds
        stretch = anchors.astype(np.int64)
        angle = (anchors - stretch) * (math.pi / 2)
        logits = np.full(len(seconds), self._click_bias)
        for anchor in range(int(stretch.min()), int(stretch.max()) + 2):
            # Along an arc from one anchor to the next: weights change, their strength does not.
            near = np.where(stretch == anchor, np.cos(angle), 0.0) + np.where(stretch == anchor - 1, np.sin(angle), 0.0)
            logits += near * (self._id_logits(anchor, ids, known) + self._dense_logits(anchor, dense))
        return logits

    def _id_logits(self, anchor: int, ids: Ints, known: Array | None) -> Floats:
        features = np.arange(NUM_IDS, dtype=np.uint64)[:, None] + np.uint64(anchor * NUM_IDS)
        salts = mix_bits(features + mix_bits(np.array(self._seed, np.uint64)))
        bits = mix_bits(ids.astype(np.uint64) ^ salts)
        # Even on (-sqrt 3, sqrt 3): a variance of one, without a logarithm per id.
        weights = (bits >> np.uint64(11)).astype(np.float64)
        weights *= 2 * math.sqrt(3) * 2.0**-53
        weights -= math.sqrt(3)
        if known is not None:
            weights = np.where(known, weights, 0.0)
        result: Floats = weights.sum(axis=0) * (self._id_strength / math.sqrt(NUM_IDS))
        return result

    def _dense_logits(self, anchor: int, dense: Array) -> Floats:
        weights = normals(self._seed, _DENSE_WEIGHTS, anchor, (NUM_DENSE,))
        weights *= self._dense_strength / np.linalg.norm(weights)
        result: Floats = (dense - 1.0) @ weights
        return result


def vocabulary_sizes(num_ids: int) -> tuple[int, ...]:
    """Return the number of ids of each of the 26 features: each vocabulary larger by one factor than the next smaller.

    >>> sizes = vocabulary_sizes(50_000_000)
    >>> min(sizes), sum(sizes)
    (3, 50000000)
    """
    if num_ids < NUM_IDS * _SMALLEST_VOCABULARY:
        raise ValueError(f"num_ids must be at least {NUM_IDS * _SMALLEST_VOCABULARY}, got {num_ids}")
    low, high = 1.0, float(num_ids)
    powers = np.arange(NUM_IDS)
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        with np.errstate(over="ignore"):
            too_many = (_SMALLEST_VOCABULARY * middle**powers).sum() > num_ids
        low, high = (low, middle) if too_many else (middle, high)
    sizes = np.floor(_SMALLEST_VOCABULARY * low**powers).astype(np.int64)
    sizes[-1] += num_ids - sizes.sum()
    # Large and small ones in turn, for features that stand side by side should differ: 7 and 26 share no factor.
    return tuple(int(size) for size in sizes[powers * 7 % NUM_IDS])


def _steep_ranks(draws: Floats, sizes: Ints) -> Ints:
    """Return ranks from 0 to `sizes - 1`, of which rank r has a share that falls like (r + 1) ** -1.1.

    As `zipf_ranks`; that the inverse is a power of -10 makes it five products, the same on every machine.
    """
    x = 1 - draws * (1 - np.power(sizes + 1.0, -0.1))
    square = x * x
    fourth = square * square
    ranks = 1 / (fourth * fourth * square)
    # Rounding must not reach size + 1; what is drawn below 0 serves another choice.
    result: Ints = np.clip(ranks, 1, sizes).astype(np.int64) - 1
    return result
