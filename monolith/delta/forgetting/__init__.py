"""Ids that serving tables must forget at once."""

from monolith.delta.forgetting.message import ask_to_forget, forget_in_tables

__all__ = ["ask_to_forget", "forget_in_tables"]
