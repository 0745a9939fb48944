"""Ids to rows: tables, and what they are configured with.

The configuration classes of :mod:`monolith.embedding.entry` are at hand here too.
"""

from monolith.embedding import entry as _entry
from monolith.embedding.config.optimizers import *  # noqa: F403 - type checkers follow one star at a time
from monolith.embedding.entry import *  # noqa: F403 - the list is entry.__all__
from monolith.embedding.multi_table import MultiBatchPlan, MultiTable
from monolith.embedding.table import BatchPlan, Changes, ChangeTracker, Table, TableMemory

__all__ = [
    *_entry.__all__,
    "BatchPlan",
    "ChangeTracker",
    "Changes",
    "MultiBatchPlan",
    "MultiTable",
    "Table",
    "TableMemory",
]
