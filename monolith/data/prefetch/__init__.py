"""Batches and steps made ahead: a bounded queue, a background thread, copies to a device."""

from monolith.data.prefetch.background import Background
from monolith.data.prefetch.bounded_queue import BoundedQueue, QueueClosedError
from monolith.data.prefetch.gpu_prefetch import DeviceCopier, copied_ahead
from monolith.data.prefetch.prefetch_source import Prefetched

__all__ = ["Background", "BoundedQueue", "DeviceCopier", "Prefetched", "QueueClosedError", "copied_ahead"]
