"""The lookup plan: what a model looks up, found by one dry run and then fixed."""
