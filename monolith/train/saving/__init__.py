"""What a run saves and where it starts from: cadence, listeners, retries, and the choices of a restore."""
