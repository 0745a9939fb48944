"""Saving during training: the state is frozen at once, and the files are written in the background."""
