"""The models of a server: which versions of each are in memory, and how they come and go."""
