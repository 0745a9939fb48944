"""MovieEvents: MovieLens-shaped events from a made-up world in which the best possible prediction is known."""

import numpy as np

from monolith.data.schema import Schema
from monolith.data.synthetic.latent_taste import Floats, Ints, LatentTaste, uniforms
from monolith.data.synthetic.planted import BLOCK, Columns, EventBlocks, area_under_curve, sigmoid, zipf_ranks

MOVIE_SCHEMA = Schema.of(uid="int64", mov="int64", label="float32", req_time="int64", seq="int64")
"""User, movie, liked (1) or not (0), seconds since 1970, and the event's own offset."""

_USER_ZIPF, _MOVIE_ZIPF = 0.6, 0.9
# Purposes of random numbers; 1 and 2 are those of LatentTaste.
_EVENTS, _FAVOURITES = 3, 4


class MovieEvents:
    """A stream of users who like movies or not: endless, and the same at every reading.

    Few users and movies make up much of the stream (Zipf). New movies come out all the time and are popular while
    they are new; tastes drift. A model that stops learning falls behind for both reasons.

    >>> world = MovieEvents(7)
    >>> events = world.events(first=1_000_000, count=3)
    >>> sorted(events) == sorted(MOVIE_SCHEMA.names), events["seq"].tolist()
    (True, [1000000, 1000001, 1000002])

    Args:
        seed: Equal seeds and settings give equal events.
        users: Number of users; their ids are 1 to `users`.
        movies: Movies there are at the beginning; ids count from 1 and go on with the new ones.
        events_per_second: Events per second of event time (`req_time`).
        new_movies_per_second: Movies that come out per second of event time.
        new_share: Share of events with a movie chosen by how new it is.
        drift_seconds: Event time after which tastes have nothing left of what they were; infinite for no drift.
        like_bias: Log-odds of a like at an appeal of zero.
        common_taste: Standard deviation of the log-odds, over movies, due to what all users like.
        own_taste: Standard deviation of the log-odds due to what only a user likes.
        start_time: `req_time` of the first event.
    """

    schema = MOVIE_SCHEMA

    def __init__(
        self,
        seed: int,
        *,
        users: int = 20_000,
        movies: int = 5_000,
        events_per_second: float = 10_000.0,
        new_movies_per_second: float = 5.0,
        new_share: float = 0.3,
        drift_seconds: float = 120.0,
        like_bias: float = -0.5,
        common_taste: float = 1.5,
        own_taste: float = 1.0,
        start_time: int = 1_700_000_000,
    ) -> None:
        positive = {"users": users, "movies": movies, "events_per_second": events_per_second}
        for name, value in (positive | {"drift_seconds": drift_seconds}).items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")
        if not 0 <= seed < 2**64 or new_movies_per_second < 0 or not 0 <= new_share <= 1:
            raise ValueError(
                "seed must be in [0, 2^64), new_movies_per_second not negative and new_share in [0, 1], "
                f"got {seed}, {new_movies_per_second} and {new_share}"
            )
        self._seed = seed
        self._users = users
        self._movies = movies
        self._events_per_second = events_per_second
        self._new_movies_per_second = new_movies_per_second
        self._new_share = new_share
        self._like_bias = like_bias
        self._start_time = start_time
        self._taste = LatentTaste(seed, users, drift_seconds=drift_seconds, common=common_taste, own=own_taste)
        # Which of the first movies are the favourites is no matter of their ids.
        self._favourites = np.argsort(uniforms(seed, _FAVOURITES, 0, (movies,)), kind="stable")
        self._blocks = EventBlocks(self._make_block)

    def events(self, first: int, count: int) -> Columns:
        """Return events `first` to `first + count - 1`, one array per column of `MOVIE_SCHEMA`."""
        columns = self._blocks.columns(first, count)
        return {name: columns[name] for name in MOVIE_SCHEMA.names}

    def probabilities(self, first: int, count: int, *, as_of: int | None = None) -> Floats:
        """Return the probability of a like that each label was drawn with.

        Args:
            first: Offset of the first event.
            count: Number of events.
            as_of: Give instead what the best model says that learned up to this event and then stopped: tastes are
                those of that time, and movies that came out later are to it like any other.
        """
        columns = self._blocks.columns(first, count)
        if as_of is None:
            probability: Floats = columns["probability"]
            return probability
        movies = columns["mov"] - 1
        then = np.full(count, as_of / self._events_per_second)
        appeal = self._taste.appeal(columns["uid"] - 1, movies, then) if count else np.empty(0)
        known = movies < self._num_movies(then)
        return sigmoid(self._like_bias + np.where(known, appeal, 0.0))

    def planted_auc(self, first: int, count: int, *, as_of: int | None = None) -> float:
        """Return the AUC that no model can beat on these events, but for luck; with `as_of`, that of a stopped one."""
        return area_under_curve(self.events(first, count)["label"], self.probabilities(first, count, as_of=as_of))

    def _make_block(self, number: int) -> Columns:
        draws = uniforms(self._seed, _EVENTS, number, (4, BLOCK))
        seq = np.arange(number * BLOCK, (number + 1) * BLOCK, dtype=np.int64)
        seconds = seq / self._events_per_second
        users = zipf_ranks(draws[0], np.float64(self._users), _USER_ZIPF)
        movies = self._choose_movies(draws[1], draws[2], self._num_movies(seconds))
        probability = sigmoid(self._like_bias + self._taste.appeal(users, movies, seconds))
        return {
            "uid": users + 1,
            "mov": movies + 1,
            "label": (draws[3] < probability).astype(np.float32),
            "req_time": self._start_time + seconds.astype(np.int64),
            "seq": seq,
            "probability": probability,
        }

    def _num_movies(self, seconds: Floats) -> Floats:
        """Return how many movies have come out by each time."""
        result: Floats = self._movies + np.floor(seconds * self._new_movies_per_second)
        return result

    def _choose_movies(self, which: Floats, draw: Floats, num_movies: Floats) -> Ints:
        newest_first = num_movies.astype(np.int64) - 1 - zipf_ranks(draw, num_movies, _MOVIE_ZIPF)
        favourites = self._favourites[zipf_ranks(draw, np.float64(self._movies), _MOVIE_ZIPF)]
        return np.where(which < self._new_share, newest_first, favourites)
