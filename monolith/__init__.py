"""Monolith trains recommendation models on live event streams and serves what they learned seconds later."""

__version__ = "0.1.0"
