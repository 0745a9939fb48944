"""Steps between a source and training; each is a source itself and keeps the position exact."""

from monolith.data.flow.cached import Cached
from monolith.data.flow.grouped import CacheOne, MergedWindow
from monolith.data.flow.joined import Concatenated, Interleaved, merge_flow
from monolith.data.flow.mapped import Mapped
from monolith.data.flow.rebatched import Rebatched
from monolith.data.flow.repeated import Repeated
from monolith.data.flow.shuffled import Shuffled
from monolith.data.flow.split_flow import SplitFlow
from monolith.data.flow.taken import Taken

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
