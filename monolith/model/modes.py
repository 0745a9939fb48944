"""What a model is run for."""

from enum import StrEnum


class Mode(StrEnum):
    """What a model is run for; compares equal to its text.

    >>> Mode.TRAIN == "train"
    True
    """

    TRAIN = "train"
    """Losses are asked for, rows and weights change."""

    EVAL = "eval"
    """Losses and predictions are asked for, nothing changes."""

    PREDICT = "predict"
    """Predictions alone; there may be no labels."""


TRAIN = Mode.TRAIN
EVAL = Mode.EVAL
PREDICT = Mode.PREDICT
