"""How the workers of a job act as one: the chief's endpoint, and a worker's link to it."""

from monolith.parallel.coordination.coordinator import Coordinator
from monolith.parallel.coordination.messages import Opening, Position
from monolith.parallel.coordination.worker_link import (
    GenerationOverError,
    JobOverError,
    ReplacedError,
    WorkerLink,
)

__all__ = ["Coordinator", "GenerationOverError", "JobOverError", "Opening", "Position", "ReplacedError", "WorkerLink"]
