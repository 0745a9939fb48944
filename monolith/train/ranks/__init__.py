"""Synchronous training: every rank is a whole run, and all take each step together."""
