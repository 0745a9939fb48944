"""Negatives drawn from a pool of items seen before."""
