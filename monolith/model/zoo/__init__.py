"""Models that are ready to use."""
