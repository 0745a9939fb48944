"""The serving side: load an export, follow the deltas, answer predictions."""

from monolith.serving.sync_receiver import Freshness, SyncReceiver, SyncTarget

__all__ = ["Freshness", "SyncReceiver", "SyncTarget"]
