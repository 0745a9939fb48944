"""How many rows each table has, written down with a snapshot."""

import json
from pathlib import Path
from typing import Final

from monolith.checkpoint.format.durable_files import write_durably
from monolith.embedding import MultiTable

CKPT_INFO_NAME: Final = "ckpt_info.json"


def write_ckpt_info(snapshot: Path, step: int, tables: MultiTable) -> None:
    """Put `ckpt_info.json` into the folder of a snapshot: its step, and `feature_counts`, the rows by table.

    The original counts ids per slot; here a table has the name of its feature, and ids need no slot.
    """
    counts = {name: len(table) for name, table in tables.tables.items()}
    write_durably(snapshot / CKPT_INFO_NAME, json.dumps({"step": step, "feature_counts": counts}, indent=1).encode())
