"""Layers for models with several tasks."""
