"""What the commands of `model_commands` do; loaded when one of them is called."""
