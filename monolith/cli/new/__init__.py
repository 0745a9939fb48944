"""`monolith new`: a small project that runs, to change into one's own."""

from monolith.cli.new.command import new

__all__ = ["new"]
