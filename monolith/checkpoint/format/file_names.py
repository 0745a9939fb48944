"""Names of files beside the snapshots that the original's tools look for, and where tests may write."""

import os
from pathlib import Path


def get_debugging_info_file_name(model_dir: str | os.PathLike[str]) -> str:
    """Return where the description of a running job is."""
    return str(Path(model_dir) / "debugging_info.pb")


def get_meta_graph_file_name(model_dir: str | os.PathLike[str]) -> str:
    """Return where the original keeps its graph."""
    return str(Path(model_dir) / "meta_graph_for_debugging.pb")


def get_test_tmp_dir() -> str:
    """Return the folder that tests may write to: TEST_TMPDIR, or /tmp."""
    return os.environ.get("TEST_TMPDIR", "/tmp")
