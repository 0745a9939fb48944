"""Steps between a source and training; each is a source itself and keeps the position exact."""

from monolith.data.flow.cache import Cached
from monolith.data.flow.cache_one import CacheOne
from monolith.data.flow.concatenate import Concatenated
from monolith.data.flow.interleave import Interleaved, merge_flow
from monolith.data.flow.map import Mapped
from monolith.data.flow.merged_window import MergedWindow
from monolith.data.flow.rebatch import Rebatched
from monolith.data.flow.repeat import Repeated
from monolith.data.flow.shuffle import Shuffled
from monolith.data.flow.split_flow import SplitFlow
from monolith.data.flow.take import Taken

__all__ = [
    "CacheOne",
    "Cached",
    "Concatenated",
    "Interleaved",
    "Mapped",
    "MergedWindow",
    "Rebatched",
    "Repeated",
    "Shuffled",
    "SplitFlow",
    "Taken",
    "merge_flow",
]
