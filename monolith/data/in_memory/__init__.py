"""Sources over what a program has at hand: arrays, data frames, iterables and torch data loaders."""

from monolith.data.in_memory.array_source import ArraySource
from monolith.data.in_memory.data_loader_source import DataLoaderSource
from monolith.data.in_memory.frame_source import FrameSource
from monolith.data.in_memory.iterable_source import IterableSource

__all__ = ["ArraySource", "DataLoaderSource", "FrameSource", "IterableSource"]
