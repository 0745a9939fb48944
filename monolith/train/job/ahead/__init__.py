"""What a worker does while it computes: rows of later batches come, gradients of earlier ones go."""

from monolith.train.job.ahead.lane import Lane
from monolith.train.job.ahead.working_ahead import WorkingAhead

__all__ = ["Lane", "WorkingAhead"]
