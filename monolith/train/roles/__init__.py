"""Which process of a job this one is, and where it finds the others: from settings and from what a scheduler says."""
