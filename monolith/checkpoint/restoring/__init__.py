"""Beyond plain restoring: chains of deltas, some tables alone, rows of another make, other numbers of files."""
