"""`monolith ckpt`: look into snapshots, check and rewrite them, go back to one, take rows out or bring them in."""

from monolith.cli.ckpt.commands import ckpt

__all__ = ["ckpt"]
