"""The `monolith` command: one file per sub-command, joined in `app.py` and started by `run.py`."""
