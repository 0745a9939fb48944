"""Batches and steps made ahead: a bounded queue, a background thread, copies to a device."""

from monolith.data.prefetch.async_functions import AsyncFunctionMgr, AsyncPushHook
from monolith.data.prefetch.background import Background
from monolith.data.prefetch.bounded_queue import BoundedQueue, QueueClosedError
from monolith.data.prefetch.gpu_prefetch import DeviceCopier, copied_ahead
from monolith.data.prefetch.prefetch_queue import (
    EnqueueHook,
    MultiQueueRunner,
    PrefetchQueue,
    enqueue_dicts_with_queue_return,
)
from monolith.data.prefetch.prefetch_source import Prefetched

__all__ = [
    "AsyncFunctionMgr",
    "AsyncPushHook",
    "Background",
    "BoundedQueue",
    "DeviceCopier",
    "EnqueueHook",
    "MultiQueueRunner",
    "PrefetchQueue",
    "Prefetched",
    "QueueClosedError",
    "copied_ahead",
    "enqueue_dicts_with_queue_return",
]
