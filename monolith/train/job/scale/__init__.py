"""A job that runs goes on with another number of processes, through a snapshot."""
