"""Hooks that come with the product: they watch a run, and may ask it to stop or to wait."""

from monolith.train.hooks.tide import CustomGlobalStepWaiterHook, TideStoppingHook, before, tide_available_now

__all__ = ["CustomGlobalStepWaiterHook", "TideStoppingHook", "before", "tide_available_now"]
