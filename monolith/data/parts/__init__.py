"""Parts of a source for the workers of a job, and how they are given out anew to another number of workers."""

from monolith.data.parts.part_source import PartSource
from monolith.data.parts.redivide import UNITS_KEY, redivide

__all__ = ["UNITS_KEY", "PartSource", "redivide"]
