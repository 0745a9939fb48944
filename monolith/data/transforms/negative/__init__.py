"""Negatives drawn from a pool of items seen before."""

from monolith.data.transforms.negative.generation import NegativeGen
from monolith.data.transforms.negative.item_pool import ItemPool, create_item_pool, item_pool_random_fill
from monolith.data.transforms.negative.pool_files import item_pool_check, restore_item_pool, save_item_pool
from monolith.data.transforms.negative.pool_hook import ItemPoolSaveRestoreHook
from monolith.data.transforms.negative.settings import NegativeGenConfig

__all__ = [
    "ItemPool",
    "ItemPoolSaveRestoreHook",
    "NegativeGen",
    "NegativeGenConfig",
    "create_item_pool",
    "item_pool_check",
    "item_pool_random_fill",
    "restore_item_pool",
    "save_item_pool",
]
