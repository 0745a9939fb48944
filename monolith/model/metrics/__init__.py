"""How good predictions are: exactly, over a stream, and per group."""

from monolith.model.metrics.grouped import GroupedAuc
from monolith.model.metrics.streaming import Calibration, StreamingAuc, StreamingMean, StreamingMse
from monolith.model.metrics.window import PredictionWindow, auc, logloss

__all__ = [
    "Calibration",
    "GroupedAuc",
    "PredictionWindow",
    "StreamingAuc",
    "StreamingMean",
    "StreamingMse",
    "auc",
    "logloss",
]
