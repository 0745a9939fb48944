"""Whether the parameter servers of a job are well, whether a run goes on, and who is told if not."""
