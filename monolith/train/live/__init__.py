"""Live training: versions for servers, and the changes in between, during a run."""
