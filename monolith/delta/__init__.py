"""What changed, on its way from the tables in training to the tables that serve: messages, sender, receiver."""

from monolith.delta.delta_part import DeltaPart
from monolith.delta.link import Delivery, DeltaSettings
from monolith.delta.loop import DeltaLoop
from monolith.delta.messages import DeltaPosition
from monolith.delta.receiver import DeltaReceiver, DeltaTarget, Freshness
from monolith.delta.sender import DeltaSender, PushReport, Sender
from monolith.delta.taken_part import TakenPart

__all__ = [
    "Delivery",
    "DeltaLoop",
    "DeltaPart",
    "DeltaPosition",
    "DeltaReceiver",
    "DeltaSender",
    "DeltaSettings",
    "DeltaTarget",
    "Freshness",
    "PushReport",
    "Sender",
    "TakenPart",
]
