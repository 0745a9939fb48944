"""Impressions joined with the actions that follow them."""

from monolith.data.joiner.config import JoinConfig
from monolith.data.joiner.joiner import Joiner
from monolith.data.joiner.negatives import corrected_logit

__all__ = ["JoinConfig", "Joiner", "corrected_logit"]
