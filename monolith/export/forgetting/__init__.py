"""Ids that must go: out of every version that was exported."""
