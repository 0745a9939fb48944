"""From state to files, while training goes on: the moment is taken at once, the files are written in the background."""
