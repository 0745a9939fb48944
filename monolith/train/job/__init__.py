"""One run on many processes: parameter servers, a chief that saves and decides, and workers."""
