"""Which items are drawn as negatives for the positives of a batch, each from the pool as it was at its turn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from monolith.data.batch import Batch
from monolith.data.draws import batch_uniforms
from monolith.data.transforms.negative.channel_queue import ChannelQueue, Ints, Timeline, index_rows
from monolith.data.transforms.negative.item_pool import ItemPool
from monolith.data.transforms.negative.settings import NegativeGenConfig
from monolith.tensors import Ragged

Floats = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Draws:
    """Negatives in the order in which they are emitted."""

    rows: Ints
    """Event that each is drawn for."""

    gids: Ints
    """The item drawn."""

    weights: Floats
    features: Mapping[str, Ragged]
    """What the pool has of the items, a row per negative."""


class ChannelMoves:
    """The queues of a pool during a batch: what each was after every event."""

    def __init__(self, pool: ItemPool, num_events: int) -> None:
        """Begin a batch."""
        self.pool = pool
        self.sizes_before = {channel: len(queue) for channel, queue in pool.channels.items()}
        self._num_events = num_events
        self._pushes: dict[int, tuple[Ints, Timeline]] = {}

    def push(self, channels: Ints, gids: Ints, rows: Ints, features: Mapping[str, Ragged]) -> None:
        """Push the items of the given events, each to its channel."""
        for channel in np.unique(channels[rows]).tolist():
            own = rows[channels[rows] == channel]
            self._pushes[channel] = own, self.pool.channel(channel).push(gids[own], index_rows(features, own))

    def spans(self, channel: int, rows: Ints) -> tuple[Ints, Ints]:
        """Return the numbers of the oldest item, and behind the newest, of a channel after the given events."""
        queue = self.pool.channels.get(channel)
        if queue is None:
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        size = self.sizes_before.get(channel, 0)
        pushed, timeline = self._pushes.get(channel, (np.empty(0, np.int64), Timeline(rows[:0], rows[:0])))
        turn = np.searchsorted(pushed, rows, side="right")
        begins = np.concatenate([[queue.begin], timeline.begins])
        ends = np.concatenate([[queue.begin + size], timeline.ends])
        return begins[turn], ends[turn]

    def finish(self) -> None:
        """End the batch: items that were driven out leave."""
        for channel in self._pushes:
            self.pool.channels[channel].drop_old()


def draw_negatives(
    config: NegativeGenConfig, moves: ChannelMoves, batch: Batch, positives: Ints, channels: Ints
) -> Draws:
    """Draw up to `neg_num` items per positive; the first draw that finds too few items ends a positive's draws.

    Args:
        config: How to draw.
        moves: The pool during this batch, items of the batch pushed.
        batch: The batch, whose name seeds the draws.
        positives: Events to draw for.
        channels: Channel of every event of the batch.
    """
    count = config.neg_num
    rows = np.repeat(positives, count)
    own = np.repeat(channels[positives], count)
    chosen = _choose_channels(config, moves, batch, own)
    places = batch_uniforms(config.seed, batch, "negative item", len(rows)).numpy()
    begins, ends = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for channel in np.unique(chosen).tolist():
        here = np.flatnonzero(chosen == channel)
        begins[here], ends[here] = moves.spans(channel, rows[here])
    sizes = ends - begins
    is_drawn = (sizes > moves.pool.start_num) & (chosen != 0)
    is_drawn = np.logical_and.accumulate(is_drawn.reshape(-1, max(count, 1)), axis=1).reshape(-1)
    index = np.minimum((places * sizes).astype(np.int64), sizes - 1)[is_drawn]
    numbers = begins[is_drawn] + index
    age = (index + 1) / sizes[is_drawn]
    return _collect(config, moves.pool, rows[is_drawn], chosen[is_drawn], numbers, age)


def _choose_channels(config: NegativeGenConfig, moves: ChannelMoves, batch: Batch, own: Ints) -> Ints:
    """Return the channel of each draw: the event's own, or at a rate any, by its items at the batch's begin."""
    sizes = moves.sizes_before
    if not config.easy_hard_ratio or len(sizes) < 2:
        return own
    is_easy = batch_uniforms(config.seed, batch, "easy negative", len(own)).numpy() < config.easy_hard_ratio
    ends = np.cumsum(list(sizes.values()))
    places = batch_uniforms(config.seed, batch, "easy channel", len(own)).numpy() * ends[-1]
    ids = np.array(list(sizes), np.int64)
    anywhere = ids[np.minimum(np.searchsorted(ends, places, side="right"), len(ids) - 1)]
    return np.where(is_easy, anywhere, own)


def _collect(
    config: NegativeGenConfig, pool: ItemPool, rows: Ints, channels: Ints, numbers: Ints, age: Floats
) -> Draws:
    gids, freq = np.empty(len(rows), np.int64), np.empty(len(rows))
    pieces: list[dict[str, Ragged]] = []
    order: list[Ints] = []
    for channel in np.unique(channels).tolist():
        here = np.flatnonzero(channels == channel)
        queue: ChannelQueue = pool.channels[channel]
        gids[here] = queue.gids[numbers[here] - queue.begin]
        freq[here] = 1.0 / queue.count_samples(numbers[here])
        pieces.append(queue.gather(numbers[here]))
        order.append(here)
    back = torch.from_numpy(np.argsort(np.concatenate(order), kind="stable")) if order else torch.empty(0).long()
    names = pieces[0] if pieces else ()
    features = {name: Ragged.concat([piece[name] for piece in pieces]).index_rows(back) for name in names}
    return Draws(rows, gids, _weights(config, age, freq), features)


def _weights(config: NegativeGenConfig, age: Floats, freq: Floats) -> Floats:
    if config.sampled_neg_instance_weight > 1e-5:
        return np.full(len(age), config.sampled_neg_instance_weight)
    if config.unbias_sampled_neg:
        weights: Floats = 1.0 + config.neg_num * age**config.neg_sample_declay_factor * freq
        return weights
    return np.ones(len(age))
