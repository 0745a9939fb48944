"""Monolith trains recommendation models on live event streams and serves what they learned seconds later."""

from monolith.native_training.finder import register

__version__ = "0.1.0"

__all__ = ["__version__"]

# The one effect of `import monolith`: `import monolith.utils` and the other original paths find their home.
register()
