"""From files back to state: a whole snapshot with its deltas, some tables alone, rows of another make."""
