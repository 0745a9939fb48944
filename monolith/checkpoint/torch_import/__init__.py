"""Rows that were trained elsewhere, as weights of a PyTorch or TorchRec embedding, become rows of a table."""

from monolith.checkpoint.torch_import.id_map import IdMap, read_id_map
from monolith.checkpoint.torch_import.imported_table import import_into_snapshot, import_table, optimizer_of_kind
from monolith.checkpoint.torch_import.state_dict import find_weight, read_state_dict

__all__ = [
    "IdMap",
    "find_weight",
    "import_into_snapshot",
    "import_table",
    "optimizer_of_kind",
    "read_id_map",
    "read_state_dict",
]
