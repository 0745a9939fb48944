"""Layers for sequences of a user's actions."""
