"""The serving side: load an export, follow the deltas, answer predictions."""
