"""Layers in which features meet."""
