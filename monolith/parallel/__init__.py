"""The same tables elsewhere: what training changes goes to the tables that serve."""

from monolith.parallel.sync_link import Delivery, SyncSettings
from monolith.parallel.sync_loop import SyncLoop
from monolith.parallel.sync_messages import Position
from monolith.parallel.sync_sender import PushReport, SyncSender

__all__ = ["Delivery", "Position", "PushReport", "SyncLoop", "SyncSender", "SyncSettings"]
