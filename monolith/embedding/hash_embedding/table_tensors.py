"""A table as plain tensors, and back: for `state_dict`, `torch.save` and safetensors."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding.table import Table

TABLE_TENSORS = ("ids", "weights", "optimizer_state", "last_seen", "max_time", "max_step", "schema")
"""What a table becomes.

`ids` int64 [n], ascending; `weights` float32 [n, dim]; `optimizer_state` uint8 [n, bytes], as the core keeps it;
`last_seen` int64 [n], seconds; `max_time` and `max_step` int64, time and step of the newest update; `schema` uint8, the
JSON of `Table.schema`.
"""

_DTYPES = {
    "ids": torch.int64,
    "weights": torch.float32,
    "optimizer_state": torch.uint8,
    "last_seen": torch.int64,
    "max_time": torch.int64,
    "max_step": torch.int64,
    "schema": torch.uint8,
}


def table_to_tensors(table: Table) -> dict[str, Tensor]:
    """Return all rows of one moment, ordered by id: the same content gives the same tensors."""
    rows = table.native
    progress = rows.begin_snapshot()
    try:
        parts = [rows.read_snapshot(sub_table) for sub_table in range(native.NUM_SUB_TABLES)]
    finally:
        rows.end_snapshot()
    ids, last_seen, row_bytes = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(ids)
    weights = row_bytes[order, : rows.weight_bytes].view(np.float32)
    return {
        "ids": torch.from_numpy(ids[order]),
        "weights": torch.from_numpy(weights),
        "optimizer_state": torch.from_numpy(row_bytes[order, rows.weight_bytes :]),
        "last_seen": torch.from_numpy(last_seen[order].astype(np.int64)),
        "max_time": torch.tensor(progress.max_time, dtype=torch.int64),
        "max_step": torch.tensor(progress.max_step, dtype=torch.int64),
        "schema": torch.frombuffer(bytearray(table.schema().encode()), dtype=torch.uint8),
    }


def table_from_tensors(table: Table, tensors: Mapping[str, Tensor]) -> None:
    """Become what `table_to_tensors` returned; a ValueError says what does not fit, and changes nothing."""
    check_table_tensors(table, tensors)
    row_bytes = np.concatenate(
        [
            _numpy(tensors["weights"]).view(np.uint8).reshape(-1, table.native.weight_bytes),
            _numpy(tensors["optimizer_state"]),
        ],
        axis=1,
    )
    ids = _numpy(tensors["ids"])
    table.native.check_rows(ids, row_bytes)
    table.clear()
    table.native.restore(ids, _numpy(tensors["last_seen"]).astype(np.uint32), row_bytes)
    table.native.raise_max_time(int(tensors["max_time"]))
    table.native.raise_max_step(int(tensors["max_step"]))


def check_table_tensors(table: Table, tensors: Mapping[str, Tensor]) -> None:
    """Raise a ValueError unless the tensors are rows of such a table."""
    label = f"table {table.config.name!r}"
    missing = [name for name in TABLE_TENSORS if name not in tensors]
    if missing:
        raise ValueError(f"{label}: the saved tensors lack {', '.join(missing)}; save with to_tensors or state_dict")
    for name, dtype in _DTYPES.items():
        if tensors[name].dtype != dtype:
            raise ValueError(f"{label}: saved {name} must be {dtype}, got {tensors[name].dtype}")
    _check_schema(table, tensors["schema"])
    num_rows = tensors["ids"].numel()
    state_bytes = table.native.row_bytes - table.native.weight_bytes
    shapes = {
        "ids": (num_rows,),
        "weights": (num_rows, table.dim),
        "optimizer_state": (num_rows, state_bytes),
        "last_seen": (num_rows,),
        "max_time": (),
        "max_step": (),
    }
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise ValueError(f"{label}: saved {name} must have shape {shape}, got {tuple(tensors[name].shape)}")
    times = torch.cat([tensors["last_seen"].reshape(-1), tensors["max_time"].reshape(1)])
    if bool(((times < 0) | (times >= 2**32)).any()):
        raise ValueError(f"{label}: saved times must be seconds from 0 to 2**32 - 1")
    if int(tensors["max_step"]) < 0:
        raise ValueError(f"{label}: saved max_step must not be negative, got {int(tensors['max_step'])}")


def _check_schema(table: Table, schema: Tensor) -> None:
    """Dims and optimizers must agree; learning rates, initializers and names may have changed since."""
    label = f"table {table.config.name!r}"
    try:
        saved = [(one["dim"], one["optimizer"]) for one in json.loads(_numpy(schema).tobytes())["segments"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{label}: the saved schema cannot be read ({error})") from error
    own = [(segment.dim, segment.optimizer.kind) for segment in table.config.segments]
    if saved != own:
        raise ValueError(
            f"{label}: the saved rows have segments (dim, optimizer) {saved}, this table has {own}; "
            "make it with the same dim and optimizer"
        )


def _numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    return tensor.detach().cpu().contiguous().numpy()
