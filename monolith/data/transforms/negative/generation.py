"""NegativeGen: a source whose positives are preceded by negatives drawn from items seen before."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from monolith.data.batch import Batch, Column
from monolith.data.draws import batch_uniforms
from monolith.data.schema import Schema
from monolith.data.source import Source, State, check_position
from monolith.data.transforms.actions import top_actions
from monolith.data.transforms.columns import get_column, get_int_lists, rows_with_any
from monolith.data.transforms.labels.column import get_labels, with_labels
from monolith.data.transforms.negative.channel_queue import Ints
from monolith.data.transforms.negative.item_pool import ItemPool
from monolith.data.transforms.negative.sampling import ChannelMoves, Draws, draw_negatives
from monolith.data.transforms.negative.settings import KEEP_ACTIONS, ONE_CHANNEL, NegativeGenConfig
from monolith.data.transforms.step import schema_after
from monolith.tensors import Ragged

_STEP = "NegativeGen"


class NegativeGen:
    """Events of a source, each positive after up to `neg_num` negatives made of it and other items.

    A negative is its positive with the item's columns, and "item_id", of an item drawn from a pool of items seen
    before; its label becomes `negative_label`. All events get an "instance_weight". Items enter the pool event by
    event: a positive is drawn for from what came before it, itself included. An item keeps the features it first came
    with for as long as it is in the pool. Draws depend on the seed and the batch's name.

    The position holds the whole pool (see `ItemPool.state`), so that a run that resumes draws the same items. Parts of
    `shard` have pools of their own, which begin empty.

    Args:
        source: Where the events come from. Needs "label", "item_id" or `index_feature`, and the columns that the
            config names.
        config: How to draw.
        pool: Pool to go on with, such as one that `restore_item_pool` filled; its sizes replace those of the config.
    """

    schema: Schema

    def __init__(self, source: Source, config: NegativeGenConfig, pool: ItemPool | None = None) -> None:
        self.source = source
        self.config = config
        self.pool = pool if pool is not None else ItemPool(config.start_num, config.max_item_num)
        trial = copy.copy(self)
        trial.pool = self.pool.new()
        self.schema = schema_after(trial._changed, source.schema)

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches with negatives, under the names they had."""
        for batch in self.source:
            with self.pool.lock:
                changed = self._changed(batch)
            if len(changed):
                yield changed

    def state(self) -> State:
        """Return the position of the source, and all items of the pool."""
        return {"source": self.source.state(), "pool": self.pool.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` returned."""
        check_position(state, "a source with negatives", source=dict, pool=dict)
        self.pool.restore(state["pool"])
        self.source.restore(state["source"])

    def shard(self, num_shards: int, index: int) -> Self:
        """Return a part of the source with a pool of its own, empty."""
        part = copy.copy(self)
        part.source = self.source.shard(num_shards, index)
        part.pool = self.pool.new()
        return part

    def _changed(self, batch: Batch) -> Batch:
        config = self.config
        is_positive = self._positives(batch)
        channels, gids = self._channels(batch), self._items(batch)
        moves = ChannelMoves(self.pool, len(batch))
        cached = self._cached(batch, is_positive).numpy() & (channels != 0)
        features = {name: _as_rows(get_column(batch, name, _STEP)) for name in config.item_features}
        moves.push(channels, gids, np.flatnonzero(cached), features)
        positives = np.flatnonzero(is_positive.numpy())
        draws = draw_negatives(config, moves, batch, positives, channels)
        moves.finish()
        return self._emitted(batch, is_positive, draws)

    def _positives(self, batch: Batch) -> Tensor:
        labels = get_labels(batch, _STEP)
        if len(batch) and self.config.label_index >= labels.shape[1]:
            raise ValueError(
                f"{_STEP}: label_index is {self.config.label_index}, events of batch {batch.name} have "
                f"{labels.shape[1]} labels"
            )
        if not self.config.positive_actions:
            is_positive = labels[:, self.config.label_index : self.config.label_index + 1] == self.config.positive_label
            return is_positive.any(1)
        actions = get_int_lists(batch, "actions", _STEP)
        top, has_any = top_actions(actions, self.config.priority_order)
        return has_any & torch.isin(top, torch.tensor(self.config.positive_actions))

    def _cached(self, batch: Batch, is_positive: Tensor) -> Tensor:
        """Return which events' items enter the pool."""
        if not self.config.cache_only_pos:
            negatives = ~is_positive
        elif self.config.cache_negative_actions:
            actions = get_int_lists(batch, "actions", _STEP)
            negatives = rows_with_any(actions, torch.tensor(self.config.cache_negative_actions)) & ~is_positive
        else:
            return is_positive
        draws = batch_uniforms(self.config.seed, batch, "negative in pool", len(batch))
        return is_positive | (negatives & (draws < self.config.origin_neg_in_pool_proba))

    def _channels(self, batch: Batch) -> Ints:
        default = torch.full((len(batch),), ONE_CHANNEL)
        if not self.config.per_channel:
            return default.numpy()
        return _first_ids(batch, self.config.channel_feature, default).numpy()

    def _items(self, batch: Batch) -> Ints:
        if not self.config.index_feature:
            return _first_ids(batch, "item_id", torch.zeros(len(batch), dtype=torch.int64)).numpy()
        has_item_id = "item_id" in batch.columns
        zeros = torch.zeros(len(batch), dtype=torch.int64)
        default = _first_ids(batch, "item_id", zeros) if has_item_id else zeros
        return _first_ids(batch, self.config.index_feature, default).numpy()

    def _emitted(self, batch: Batch, is_positive: Tensor, draws: Draws) -> Batch:
        """Return the negatives drawn, each before its positive, and the events that stay."""
        places, is_drawn = self._order(is_positive, draws)
        emitted = batch.select(places)
        columns = dict(emitted.columns)
        drawn = is_drawn.nonzero().squeeze(1)
        for name in self.config.item_features:
            if len(drawn):
                columns[name] = _replaced(columns[name], drawn, draws.features[name])
        if "item_id" in columns:
            gids = Ragged(torch.from_numpy(draws.gids), torch.arange(len(drawn) + 1))
            columns["item_id"] = _replaced(columns["item_id"], drawn, gids)
        if self.config.negative_action != KEEP_ACTIONS:
            action = Ragged(torch.full((len(drawn),), self.config.negative_action), torch.arange(len(drawn) + 1))
            columns["actions"] = _replaced(get_int_lists(emitted, "actions", _STEP), drawn, action)
        columns["instance_weight"] = self._weights(is_positive[places], drawn, draws)
        changed = emitted.with_columns(columns)
        labels = get_labels(emitted, _STEP).clone()
        labels[drawn, self.config.label_index : self.config.label_index + 1] = self.config.negative_label
        return with_labels(changed, labels)

    def _order(self, is_positive: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Return the event behind each emitted one, and which emitted ones are drawn negatives."""
        stays = torch.full_like(is_positive, not self.config.throw_origin)
        if self.config.throw_origin_neg:
            stays &= is_positive
        drawn, origin = torch.from_numpy(draws.rows), stays.nonzero().squeeze(1)
        places = torch.cat([drawn, origin])
        order = torch.argsort(places, stable=True)  # negatives stand before their positive, in the order drawn
        return places[order], order < len(drawn)

    def _weights(self, is_positive: Tensor, drawn: Tensor, draws: Draws) -> Tensor:
        real = self.config.real_neg_instance_weight
        weights = torch.where(is_positive, 1.0, real if real > 1e-5 else 1.0).to(torch.float32)
        weights[drawn] = torch.from_numpy(draws.weights).to(torch.float32)
        return weights


def _first_ids(batch: Batch, name: str, default: Tensor) -> Tensor:
    """Return the first id of each event, or the default where it has none."""
    rows = get_int_lists(batch, name, _STEP)
    if not len(rows.values):
        return default
    first = rows.values[rows.row_splits[:-1].clamp(max=len(rows.values) - 1)]
    return torch.where(rows.row_lengths() > 0, first, default)


def _as_rows(column: Column) -> Ragged:
    """Return a column of any form as rows, which is how the pool keeps it."""
    if isinstance(column, Ragged):
        return column
    width = column.shape[1] if column.dim() > 1 else 1
    return Ragged(column.reshape(-1), torch.arange(column.shape[0] + 1) * width)


def _replaced(column: Column, places: Tensor, rows: Ragged) -> Column:
    """Return a column with other rows at some places, in the form it has."""
    if not isinstance(column, Ragged):
        changed = column.clone()
        changed[places] = rows.values.reshape(len(places), *column.shape[1:])
        return changed
    count = column.num_rows
    indices = torch.arange(count)
    indices[places] = count + torch.arange(len(places))
    return Ragged.concat([column, rows]).index_rows(indices)
