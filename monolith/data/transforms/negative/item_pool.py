"""ItemPool: items seen before, by channel, from which negatives are drawn."""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from monolith.data.source import check_position
from monolith.data.transforms.negative.array_text import decode_array, decode_rows, encode_array, encode_rows
from monolith.data.transforms.negative.channel_queue import ChannelQueue, Ints
from monolith.tensors import Ragged


class ItemPool:
    """A queue of different items per channel.

    Args:
        start_num: Items are drawn from a channel once it has more items than this.
        max_item_num_per_channel: Most items of a channel; the oldest leaves for a new one.
    """

    def __init__(self, start_num: int = 500, max_item_num_per_channel: int = 100_000) -> None:
        if start_num < 0 or max_item_num_per_channel <= 0:
            raise ValueError(
                "start_num must not be negative and max_item_num_per_channel positive, got "
                f"{start_num} and {max_item_num_per_channel}"
            )
        self.start_num = start_num
        self.max_item_num_per_channel = max_item_num_per_channel
        self.channels: dict[int, ChannelQueue] = {}
        self.lock = threading.RLock()
        """Held while a batch goes through the pool, and while it is saved: batches may be made by another thread."""

    def __len__(self) -> int:
        return sum(len(queue) for queue in self.channels.values())

    def channel(self, channel_id: int) -> ChannelQueue:
        """Return the queue of a channel; an empty one if there was none."""
        if channel_id not in self.channels:
            self.channels[channel_id] = ChannelQueue(self.max_item_num_per_channel)
        return self.channels[channel_id]

    def new(self) -> "ItemPool":
        """Return an empty pool of the same size."""
        return ItemPool(self.start_num, self.max_item_num_per_channel)

    def state(self) -> dict[str, Any]:
        """Return all items as JSON values.

        Per channel: its number; "gids", "origin_counts" and "sample_counts", oldest item first; and under "features"
        the "values" and "row_splits" of each item feature. Arrays are {"dtype", "data"}, the data little-endian in
        base64.
        """
        return {"channels": [_queue_state(channel_id, queue) for channel_id, queue in self.channels.items()]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Replace the items by the items of a state; raise ValueError if it is not a state of a pool."""
        check_position(state, "an item pool", channels=list)
        self.channels = dict(_queue_of(value, self.max_item_num_per_channel) for value in state["channels"])


def create_item_pool(start_num: int, max_item_num_per_channel: int) -> ItemPool:
    """Return an empty pool."""
    return ItemPool(start_num, max_item_num_per_channel)


def item_pool_random_fill(pool: ItemPool, num_items: int = 1000, seed: int = 0, channel_id: int = 3) -> None:
    """Fill one channel of a pool with made-up items that have a feature "item", for trials."""
    random = np.random.Generator(np.random.Philox(key=np.array([seed, channel_id], np.uint64)))
    gids: Ints = np.unique(random.integers(1, 1 << 48, num_items))
    rows = Ragged.from_lists([[int(gid)] for gid in gids])
    pool.channel(channel_id).push(gids, {"item": rows})
    pool.channel(channel_id).drop_old()


def _queue_state(channel_id: int, queue: ChannelQueue) -> dict[str, Any]:
    return {
        "channel": channel_id,
        "gids": encode_array(queue.gids),
        "origin_counts": encode_array(queue.origin_counts),
        "sample_counts": encode_array(queue.sample_counts),
        "features": {name: encode_rows(rows) for name, rows in queue.features.items()},
    }


def _queue_of(value: Any, max_items: int) -> tuple[int, ChannelQueue]:
    names = {"channel", "gids", "origin_counts", "sample_counts", "features"}
    if not isinstance(value, dict) or set(value) != names or not isinstance(value["channel"], int):
        raise ValueError(f"a channel of an item pool's state has {', '.join(sorted(names))}, got {str(value)[:80]}")
    queue = ChannelQueue.of(
        max_items,
        gids=decode_array(value["gids"]),
        origin_counts=decode_array(value["origin_counts"]),
        sample_counts=decode_array(value["sample_counts"]),
        features={name: decode_rows(rows) for name, rows in value["features"].items()},
    )
    return value["channel"], queue
