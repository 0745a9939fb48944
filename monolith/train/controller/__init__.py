"""Control of a run from outside: pause it, resume it, save, ask how far it is, end it."""

from monolith.train.controller.client import ControllerClient, TrainingStatus
from monolith.train.controller.pause import Pause
from monolith.train.controller.query_action import QueryActionHook
from monolith.train.controller.server_hook import ServerHook

__all__ = ["ControllerClient", "Pause", "QueryActionHook", "ServerHook", "TrainingStatus"]
