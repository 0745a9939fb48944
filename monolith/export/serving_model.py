"""A model that answers: serving tables and dense weights, both of which may change while it does."""

import math
from collections.abc import Mapping
from typing import overload

import numpy as np
import torch
from torch import Tensor

from monolith.embedding import MultiTable
from monolith.errors import shown
from monolith.export.dense_session import DenseSession
from monolith.export.description import Description
from monolith.export.signature import Array, Values, num_rows
from monolith.model import Lookup, LookupPlan
from monolith.tensors import Ragged

_NO_IDS = torch.empty(0, dtype=torch.int64)
"""For a feature that only training looks up."""

MAX_FLOATS = 1 << 28
"""Floats that one call looks up at most: 1 GiB."""


class ServingModel:
    """Predicts from ids and feature columns; made by `load_export`.

    Any number of threads may predict while others bring rows and weights. A prediction reads each row whole, and
    dense weights of one swap alone.
    """

    def __init__(
        self, description: Description, *, plan: LookupPlan, tables: MultiTable, session: DenseSession
    ) -> None:
        """Join the parts; generation, sequence and time of creation are those of the files and stay."""
        self.name = description.name
        self.version = description.version
        self.signature = description.signature
        self.plan = plan
        self.tables = tables
        self._rows = description.rows
        self._columns = description.columns
        self._lookup = Lookup(plan, tables)
        self._features = [feature.name for feature in plan.features]
        self._row_dims = {feature.name: tables[feature.table].dim for feature in plan.features}
        self._floats_per_example = sum(math.prod(plan.slice_shape(key)) for key in plan.places)
        self._session = session
        self.generation = description.generation
        self.sequence = description.sequence
        self.parts = description.parts
        self.created = description.created

    @property
    def plan_hash(self) -> int:
        """The plan's 64-bit number; deltas of another plan do not fit."""
        return self.plan.hash

    @property
    def dense_weights(self) -> Mapping[str, Array]:
        """The dense weights in force; not to be written to."""
        return self._session.weights

    def predict(self, columns: Mapping[str, Values]) -> dict[str, Array]:
        """Return the outputs by name, one row per example; ids that have no row read as zeros.

        Lists, one per example, are a `Ragged` or Python lists; their rows are pooled or cut as in training. An input of
        texts takes texts, or their ids as a tensor.

        Raises:
            ValueError: an input is unknown, missing, or of another type or shape; the message names it.
        """
        checked = self.signature.check(columns)
        self._check_size(checked)
        slices = self._lookup.pull(
            {name: _as_tensor(checked[name]) if name in checked else _NO_IDS for name in self._features},
            requires_grad=False,
        ).slices
        inputs = {
            name: np.ascontiguousarray(slices[place.feature, place.slice_name].numpy())
            for name, place in self._rows.items()
        }
        inputs.update((name, _as_array(checked[column])) for name, column in self._columns.items())
        return self._session.run(inputs)

    def swap_dense(self, weights: Mapping[str, Array]) -> None:
        """Take these dense weights from the next prediction on; those not named stay.

        Raises:
            ValueError: a name is unknown, or a shape or type another; then nothing changes.
        """
        self._session.swap(weights)

    def apply_rows(self, table: str, ids: Array | Tensor, rows: Array | Tensor) -> None:
        """Overwrite rows, or add them; each row changes at once."""
        self._require_table(table)
        self.tables.assign({table: (_as_tensor(ids), _as_tensor(rows))})

    def erase_rows(self, table: str, ids: Array | Tensor) -> int:
        """Remove rows: their ids read as zeros again; returns how many there were."""
        self._require_table(table)
        return self.tables[table].erase(_as_tensor(ids))

    def _check_size(self, columns: Mapping[str, Array | Ragged]) -> None:
        num_examples = max((num_rows(column) for column in columns.values()), default=0)
        ids = {name: columns[name] for name in self._features if name in columns}
        floats = sum(_num_values(column) * self._row_dims[name] for name, column in ids.items())
        # Sequences are padded: an example of a few bytes may need more than its ids.
        floats = max(floats, num_examples * self._floats_per_example)
        if floats > MAX_FLOATS:
            raise ValueError(
                f"{num_examples} examples at a time would look up {floats} floats, {MAX_FLOATS} at most are looked up; "
                "send fewer examples at a time"
            )

    def _require_table(self, name: str) -> None:
        if name not in self.tables.tables:
            raise ValueError(f"there is no table {shown(name)}; the tables are {', '.join(self.tables.names)}")


def _num_values(column: Array | Ragged) -> int:
    return len(column.values) if isinstance(column, Ragged) else column.size


def _as_array(values: Array | Ragged) -> Array:
    assert not isinstance(values, Ragged)  # `load_export` has made sure
    return values


@overload
def _as_tensor(values: Array | Tensor) -> Tensor: ...


@overload
def _as_tensor(values: Array | Ragged) -> Tensor | Ragged: ...


def _as_tensor(values: Array | Tensor | Ragged) -> Tensor | Ragged:
    # Copied if read-only, as arrays out of a message are: torch knows no such thing and would warn.
    return (
        values if isinstance(values, Tensor | Ragged) else torch.from_numpy(np.require(values, requirements=["C", "W"]))
    )
