"""Ids that must go: out of the files of snapshots and deltas, of which each stays whole at every moment."""
