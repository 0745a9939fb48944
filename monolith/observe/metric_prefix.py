"""The prefix of metric names; kept in the environment, so that processes started from this one have it too."""

import os

PREFIX_VARIABLE = "MONOLITH_METRIC_PREFIX"
DEFAULT_PREFIX = "monolith.training"


def set_metric_prefix(prefix: str) -> None:
    """Let metric names begin with `prefix`, here and in processes started later."""
    os.environ[PREFIX_VARIABLE] = prefix


def get_metric_prefix() -> str:
    """Return what metric names begin with."""
    return os.environ.get(PREFIX_VARIABLE, DEFAULT_PREFIX)
