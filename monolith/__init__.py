"""Monolith trains recommendation models on live event streams and serves what they learned seconds later."""

from importlib import import_module
from typing import TYPE_CHECKING

from monolith.native_training.finder import register
from monolith.version import __version__

if TYPE_CHECKING:
    from monolith import data as data
    from monolith.embedding.hash_embedding import HashEmbedding, HashEmbeddingBag, RowOptimizer
    from monolith.hooks import Hook, RunContext
    from monolith.model import EVAL, PREDICT, TRAIN, EstimatorSpec, Mode, MonolithModel
    from monolith.train import Estimator, RunConfig

__all__ = [
    "EVAL",
    "PREDICT",
    "TRAIN",
    "Estimator",
    "EstimatorSpec",
    "HashEmbedding",
    "HashEmbeddingBag",
    "Hook",
    "Mode",
    "MonolithModel",
    "RowOptimizer",
    "RunConfig",
    "RunContext",
    "__version__",
    "data",
]

# The one effect of `import monolith`: `import monolith.utils` and the other original paths find their home.
register()

# Loaded when first asked for: the command line must not wait for torch to say its version.
_HOMES = {
    **dict.fromkeys(("HashEmbedding", "HashEmbeddingBag", "RowOptimizer"), "monolith.embedding.hash_embedding"),
    **dict.fromkeys(("Hook", "RunContext"), "monolith.hooks"),
    **dict.fromkeys(("EVAL", "PREDICT", "TRAIN", "EstimatorSpec", "Mode", "MonolithModel"), "monolith.model"),
    **dict.fromkeys(("Estimator", "RunConfig"), "monolith.train"),
}
_PACKAGES = ("data",)


def __getattr__(name: str) -> object:
    """Return a name of the front door from its home."""
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the names of the front door too."""
    return sorted({*globals(), *__all__})
