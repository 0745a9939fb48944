"""Saving while training goes on: the moment is taken at once, the files are written behind its back."""
