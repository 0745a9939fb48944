"""The version of this package; the one in pyproject.toml is the same."""

__version__ = "0.1.0"
