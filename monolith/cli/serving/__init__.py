"""Commands of processes that serve together with others."""
