"""Negatives drawn from a pool of items seen before."""

from monolith.data.transforms.negative.generation import NegativeGen
from monolith.data.transforms.negative.item_pool import ItemPool, create_item_pool, item_pool_random_fill
from monolith.data.transforms.negative.settings import NegativeGenConfig

__all__ = [
    "ItemPool",
    "NegativeGen",
    "NegativeGenConfig",
    "create_item_pool",
    "item_pool_random_fill",
]
