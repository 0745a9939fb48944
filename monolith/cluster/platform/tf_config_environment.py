"""The cluster that a scheduler describes in the environment."""

import os


def tf_config_text() -> str | None:
    """Return TF_CONFIG, a JSON object with the addresses of all processes and the role of this one; None if not set."""
    return os.environ.get("TF_CONFIG") or None
