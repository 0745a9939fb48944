"""A server of several processes: fronts that parse and answer, one process that holds the rows, and who starts them."""
