"""What a delta message must be before any of it is applied."""

from collections.abc import Mapping

import numpy as np
import torch

from monolith.delta.delta_part import DeltaPart
from monolith.delta.messages import DeltaContent
from monolith.embedding.hash_shards import shards_of_ids
from monolith.embedding.multi_table import MultiTable
from monolith.errors import CorruptFrameError, NotFiniteError
from monolith.wire import Array


def check_content(
    content: DeltaContent, part: DeltaPart, tables: MultiTable, dense_weights: Mapping[str, Array]
) -> None:
    """Raise unless every row, tombstone and weight can be applied to these tables and weights.

    Raises:
        CorruptFrameError: a table or weight is unknown, has another width, shape or type, or is not of the part.
        NotFiniteError: a row or weight has a NaN or an infinity; the message names table and id, or the weight.
    """
    unknown = (content.rows.keys() | content.erased.keys()) - tables.tables.keys()
    if unknown:
        raise CorruptFrameError(f"there are no tables {sorted(unknown)} here, only {sorted(tables.tables)}")
    if content.dense and not part.has_dense:
        raise CorruptFrameError(f"the sender of {part} sent dense weights")
    for table, ids in (*content.erased.items(), *((name, ids) for name, (ids, _) in content.rows.items())):
        _check_part(table, ids, part)
    for table, (ids, rows) in content.rows.items():
        _check_rows(table, tables[table].dim, ids, rows)
    for name, weight in content.dense.items():
        _check_weight(name, weight, dense_weights)


def _check_part(table: str, ids: Array, part: DeltaPart) -> None:
    """Refuse rows of another sender: nobody would bring their next values, or remove them."""
    place = part.rows_of
    if place == (0, 1) or not len(ids):
        return
    foreign = np.full(len(ids), True)
    if place is not None:
        foreign = (shards_of_ids(torch.from_numpy(ids), place[1]) != place[0]).numpy()
    if foreign.any():
        raise CorruptFrameError(f"table {table!r}: id {ids[int(np.argmax(foreign))]} is not of {part}")


def _check_rows(table: str, dim: int, ids: Array, rows: Array) -> None:
    if rows.shape[1] != dim:
        raise CorruptFrameError(f"table {table!r} has rows of {dim} floats, got {rows.shape[1]}")
    finite = np.isfinite(rows)
    if not finite.all():
        place = int(np.argmin(finite.all(axis=1)))
        at = int(np.argmin(finite[place]))
        raise NotFiniteError(
            f"table {table!r}, id {ids[place]}: float {at} of its row is {rows[place, at]}; nothing of the message was "
            "applied. Give the row finite values in training, or erase it there"
        )


def _check_weight(name: str, weight: Array, here: Mapping[str, Array]) -> None:
    if name not in here:
        raise CorruptFrameError(f"there is no dense weight {name!r} here, only {sorted(here)}")
    known = here[name]
    if weight.shape != known.shape or weight.dtype != known.dtype:
        raise CorruptFrameError(
            f"dense weight {name!r} is {known.dtype} of shape {list(known.shape)} here, got {weight.dtype} of shape "
            f"{list(weight.shape)}; a model of another shape is a new export"
        )
    # A weight that is infinite in the export, such as a bound nobody set, may stay as it is.
    wrong = ~np.isfinite(weight) & ~((weight == known) | (np.isnan(weight) & np.isnan(known)))
    if wrong.any():
        raise NotFiniteError(
            f"dense weight {name!r}: element {int(np.argmax(wrong))} of the flattened weight is "
            f"{weight.reshape(-1)[int(np.argmax(wrong))]}; nothing of the message was applied"
        )
