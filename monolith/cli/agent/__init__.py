"""`monolith agent`: serve what is published in ZooKeeper, and publish it."""

from monolith.cli.agent.commands import agent

__all__ = ["agent"]
