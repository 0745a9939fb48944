"""A model that answers: serving tables and dense weights, both of which may change while it does."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Self, overload

import numpy as np
import torch
from torch import Tensor

from monolith.data.parse.record_columns import SerializedFormat
from monolith.data.parse.record_reader import RecordReader
from monolith.delta import TakenPart
from monolith.delta.taken_part import WHOLE_TARGET
from monolith.embedding import MultiTable
from monolith.errors import shown
from monolith.export.dense_session import JOINED_ROWS, DenseSession
from monolith.export.description import Description, RowInput
from monolith.export.signature import Array, Values, num_rows
from monolith.model import Lookup, LookupPlan
from monolith.model.plan.layouts import JoinedSlices, Layouts
from monolith.model.plan.slices import SliceKey
from monolith.tensors import Ragged

_NO_IDS = torch.empty(0, dtype=torch.int64)
"""For a feature that only training looks up."""

MAX_FLOATS = 1 << 28
"""Floats that one call looks up at most: 1 GiB."""


@dataclass(frozen=True, slots=True)
class Question:
    """Columns that were checked: what one call of `predict` asks."""

    columns: dict[str, Array | Ragged]
    """By input; one row counts for all examples."""

    num_examples: int


class ServingModel:
    """Predicts from ids and feature columns; made by `load_export`.

    Any number of threads may predict while others bring rows and weights. A prediction reads each row whole, and
    dense weights of one swap alone.
    """

    def __init__(
        self,
        description: Description,
        *,
        plan: LookupPlan,
        tables: MultiTable,
        session: DenseSession,
        takes: TakenPart = WHOLE_TARGET,
    ) -> None:
        """Join the parts; generation, sequence and time of creation are those of the files and stay.

        `takes` is what deltas bring: everything, unless other processes have the rows.
        """
        self.description = description
        self.name = description.name
        self.version = description.version
        self.signature = description.signature
        self.signatures = description.signatures
        self.plan = plan
        self.tables = tables
        self.takes = takes
        self._columns = description.columns
        keys: dict[str, SliceKey] = {name: (row.feature, row.slice_name) for name, row in description.rows.items()}
        together = [keys.pop(name) for name in joined_rows(description.rows, plan)]
        joined = [JoinedSlices(tuple(together), "concat")] if together else []
        self._alone = keys
        self._joined = joined[0].key if joined else None
        self._lookup = Lookup(plan, tables, Layouts(alone=tuple(keys.values()), joined=tuple(joined)))
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

    @property
    def shards_away(self) -> tuple[int, ...]:
        """Shards whose rows were zeros in the last prediction of this thread, because they did not answer in time."""
        away: tuple[int, ...] = getattr(self.tables, "shards_away", ())
        return away

    def as_version(self, number: int) -> Self:
        """Return the same tables and weights under another version number."""
        other = copy(self)
        other.version = number
        return other

    def predict(self, columns: Mapping[str, Values]) -> dict[str, Array]:
        """Return the outputs by name, one row per example; ids that have no row read as zeros.

        Lists, one per example, are a `Ragged` or Python lists; their rows are pooled or cut as in training. An input of
        texts takes texts, or their ids as a tensor. An input of one row counts for all examples: it is looked up once.

        Raises:
            ValueError: an input is unknown, missing, or of another type or shape; the message names it.
        """
        return self.predict_together([self.check(columns)])[0]

    def check(self, columns: Mapping[str, Values]) -> Question:
        """Return columns as `predict_together` takes them; a ValueError, as `predict` raises, says what is wrong."""
        checked = self.signature.check(columns)
        lengths = [num_rows(column) for column in checked.values()]
        question = Question(checked, next((length for length in lengths if length != 1), 1))
        self._check_size(question)
        return question

    def read_records(self, serialized: Sequence[bytes]) -> dict[str, Tensor | Ragged]:
        """Return the columns of serialized records, as `predict` takes them; a ValueError names a record that is wrong.

        They are records of the format in training. If training read none, they are of `tf.Example`.
        """
        return self._record_reader.read(serialized)

    @property
    def record_format(self) -> SerializedFormat:
        """What the records of `read_records` are."""
        return "tf_example" if self.description.records is None else self.description.records.format

    @cached_property  # made for the first records: an input that no record can hold may still come as a column
    def _record_reader(self) -> RecordReader:
        return RecordReader(self.description.records or self.signature.record_columns("tf_example"))

    def predict_together(self, questions: Sequence[Question]) -> list[dict[str, Array]]:
        """Return the outputs of each question, all of one call: many small ones are faster together."""
        columns = _joined(questions)
        slices = self._lookup.pull(
            {name: _as_tensor(columns[name]) if name in columns else _NO_IDS for name in self._features},
            requires_grad=False,
        ).slices
        inputs = {name: slices[key].numpy() for name, key in self._alone.items()}
        if self._joined is not None:
            inputs[JOINED_ROWS] = slices[self._joined].numpy()
        inputs.update((name, _as_array(columns[column])) for name, column in self._columns.items())
        num_examples = sum(question.num_examples for question in questions)
        outputs = self._session.run({name: _repeated(value, num_examples) for name, value in inputs.items()})
        if len(questions) == 1:
            return [outputs]
        ends = np.cumsum([question.num_examples for question in questions])[:-1]
        parts = {name: np.split(values, ends) for name, values in outputs.items()}
        return [{name: values[number] for name, values in parts.items()} for number in range(len(questions))]

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

    def _check_size(self, question: Question) -> None:
        num_examples, columns = question.num_examples, question.columns
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


def joined_rows(rows: Mapping[str, RowInput], plan: LookupPlan) -> dict[str, int]:
    """Return the inputs of a graph whose rows are looked up side by side, with their widths: all but sequences."""
    return {name: row.dim for name, row in rows.items() if len(plan.slice_shape((row.feature, row.slice_name))) == 1}


def _joined(questions: Sequence[Question]) -> dict[str, Array | Ragged]:
    """Return the columns of all questions, one after the other."""
    if len(questions) == 1:
        return questions[0].columns
    counts = np.array([question.num_examples for question in questions])
    return {
        name: _joined_column([question.columns[name] for question in questions], counts)
        for name in questions[0].columns
    }


def _joined_column(parts: Sequence[Array | Ragged], counts: Array) -> Array | Ragged:
    """Return the values of one input; a part of one row is repeated for the examples of its question."""
    lengths = np.array([num_rows(part) for part in parts])
    repeats = None if (lengths == counts).all() else np.repeat(np.where(lengths == counts, 1, counts), lengths)
    if isinstance(parts[0], Ragged):
        lists = Ragged.concat([part for part in parts if isinstance(part, Ragged)])
        return (
            lists
            if repeats is None
            else lists.index_rows(torch.from_numpy(np.repeat(np.arange(len(repeats)), repeats)))
        )
    values = np.concatenate([part for part in parts if not isinstance(part, Ragged)])
    return values if repeats is None else np.repeat(values, repeats, axis=0)


def _num_values(column: Array | Ragged) -> int:
    return len(column.values) if isinstance(column, Ragged) else column.size


def _repeated(values: Array, num_examples: int) -> Array:
    """Return contiguous values of all examples; one row stands for each of them."""
    if len(values) != num_examples:
        values = np.broadcast_to(values, (num_examples, *values.shape[1:]))
    return np.ascontiguousarray(values)


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
