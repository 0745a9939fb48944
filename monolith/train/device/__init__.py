"""Training with the dense part on another device; rows stay with the tables, in this machine's memory."""
