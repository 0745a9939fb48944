"""What `monolith train`, `evaluate` and `predict` do; loaded when one of them is called."""
