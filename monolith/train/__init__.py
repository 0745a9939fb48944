"""The training loop: Estimator, its configuration, and the visible step."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monolith.train.config import RunConfig, RunnerConfig
    from monolith.train.estimator import Estimator
    from monolith.train.hooks.live_view import LiveView
    from monolith.train.loop import RunResult, Sync, Trainer
    from monolith.train.state import TrainState

__all__ = ["Estimator", "LiveView", "RunConfig", "RunResult", "RunnerConfig", "Sync", "TrainState", "Trainer"]

# Loaded when first asked for: the command line needs the settings without torch.
_HOMES = {
    **dict.fromkeys(("RunConfig", "RunnerConfig"), "monolith.train.config"),
    **dict.fromkeys(("RunResult", "Sync", "Trainer"), "monolith.train.loop"),
    "Estimator": "monolith.train.estimator",
    "LiveView": "monolith.train.hooks.live_view",
    "TrainState": "monolith.train.state",
}


def __getattr__(name: str) -> object:
    """Return a name of the package from its home."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the names of the package too."""
    return sorted({*globals(), *__all__})
