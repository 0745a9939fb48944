"""Live training: versions for servers, and what changed in between, while a run goes on."""
