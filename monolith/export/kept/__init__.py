"""Which versions stay in an export base, and the file that says which ones there are."""
