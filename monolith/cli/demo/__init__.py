"""`monolith demo`: a whole live system on this machine, for a minute."""

from monolith.cli.demo.command import demo

__all__ = ["demo"]
