"""Filters: steps that drop events."""
