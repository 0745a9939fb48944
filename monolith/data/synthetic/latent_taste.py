"""LatentTaste: what the users of a made-up world like, how that changes, and what its movies are like."""

import math
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

NUM_TRAITS = 4
_MAX_KEPT_MOVIES = 1 << 20
# One stream of random numbers per purpose: the second half of a Philox key is purpose and number.
_COMMON, _OWN = 1, 2


def uniforms(seed: int, purpose: int, number: int, shape: tuple[int, ...]) -> Floats:
    """Return the same numbers in (0, 1) for the same arguments, whatever was drawn before."""
    bits = np.random.Philox(key=np.array([seed, (purpose << 56) | number], np.uint64))
    return np.random.Generator(bits).random(shape) * (1 - 2.0**-52) + 2.0**-53


def normals(seed: int, purpose: int, number: int, shape: tuple[int, ...]) -> Floats:
    """Return normal numbers, the same for the same arguments."""
    return _box_muller(uniforms(seed, purpose, number, (2, *shape)))


def movie_traits(seed: int, movies: Ints) -> Floats:
    """Return the traits of each movie, normal numbers that depend on the seed and its own number alone."""
    places = np.arange(2 * NUM_TRAITS, dtype=np.uint64).reshape(2, 1, NUM_TRAITS)
    counters = movies.astype(np.uint64)[None, :, None] * np.uint64(2 * NUM_TRAITS) + places
    bits = mix_bits(counters + mix_bits(np.array(seed, np.uint64)))
    return _box_muller((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54)


def _box_muller(pairs: Floats) -> Floats:
    """Return one normal number per pair of uniform ones; unlike NumPy's own, it cannot change between versions."""
    result: Floats = np.sqrt(-2 * np.log(pairs[0])) * np.cos(2 * math.pi * pairs[1])
    return result


def mix_bits(x: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return 64 bits that each depend on every bit of `x`: the output step of SplitMix64."""
    with np.errstate(over="ignore"):
        mixed = np.asarray(x + np.uint64(0x9E3779B97F4A7C15))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
        return mixed


class LatentTaste:
    """Traits of movies and tastes of users, of which the product is the appeal of a movie to a user.

    A taste is what all users share plus what is a user's own. Both move from one random anchor to the next, an
    unrelated one, every `drift_seconds`, along an arc that keeps their length: tastes change, their strength does not.

    Args:
        seed: Equal seeds give equal worlds.
        users: Number of users.
        drift_seconds: Event time after which a taste has nothing left of what it was; infinite for no drift.
        common: Standard deviation, over movies, of the appeal of what all share.
        own: Standard deviation of the appeal of what is a user's own.
    """

    def __init__(self, seed: int, users: int, *, drift_seconds: float, common: float, own: float) -> None:
        self._seed = seed
        self._users = users
        self._drift_seconds = drift_seconds
        self._common = common
        self._own = own
        self._traits = np.empty((0, NUM_TRAITS))
        self._anchors: tuple[range, Floats, Floats] = (range(0), np.empty(0), np.empty(0))

    def appeal(self, users: Ints, movies: Ints, seconds: Floats) -> Floats:
        """Return the appeal of each movie to each user at each event time, all counted from 0."""
        stretch, angle = self._place(seconds)
        before, after = np.cos(angle), np.sin(angle)
        low = int(stretch.min())
        common, own = self._anchors_between(low, int(stretch.max()) + 1)
        near = stretch - low
        taste = common[near] * before[:, None] + common[near + 1] * after[:, None]
        taste += own[near, users] * before[:, None] + own[near + 1, users] * after[:, None]
        result: Floats = np.einsum("nd,nd->n", taste, self._traits_of(movies))
        return result

    def _place(self, seconds: Floats) -> tuple[Ints, Floats]:
        """Return the anchor each time lies behind, and the angle towards the next."""
        anchors = seconds / self._drift_seconds
        stretch = anchors.astype(np.int64)
        return stretch, (anchors - stretch) * (math.pi / 2)

    def _anchors_between(self, low: int, high: int) -> tuple[Floats, Floats]:
        numbers = range(low, high + 1)
        if self._anchors[0] != numbers:
            pairs = [self._anchor(number) for number in numbers]
            self._anchors = numbers, np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs])
        return self._anchors[1:]

    def _anchor(self, number: int) -> tuple[Floats, Floats]:
        shared = normals(self._seed, _COMMON, number, (NUM_TRAITS,))
        own = normals(self._seed, _OWN, number, (self._users, NUM_TRAITS)) / math.sqrt(NUM_TRAITS)
        # What all share has the same length at every anchor; what users own differs between them in strength too.
        return shared / np.linalg.norm(shared) * self._common, own * self._own

    def _traits_of(self, movies: Ints) -> Floats:
        highest = int(movies.max())
        if highest >= _MAX_KEPT_MOVIES:
            return movie_traits(self._seed, movies)
        if highest >= len(self._traits):
            # Doubled, so that a catalogue that grows by one movie at a time is not made anew each time.
            self._traits = movie_traits(self._seed, np.arange(2 * highest + 1))
        kept: Floats = self._traits[movies]
        return kept
