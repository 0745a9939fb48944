"""The dry run: what a model looks up, found by running it once per mode on a made-up batch."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from monolith.data import Column, ColumnType, Schema
from monolith.embedding import Segment
from monolith.embedding.admission import AdmissionConfig, FilterType
from monolith.model.base import MonolithModel
from monolith.model.batch_columns import ColumnsRead
from monolith.model.dense import run_model_fn
from monolith.model.modes import Mode
from monolith.model.plan.feature_column import DEFAULT_FILTER_CAPACITY, FeatureColumn
from monolith.model.plan.feature_groups import OutType, combine
from monolith.model.plan.layouts import JoinedSlices, Layouts, can_be_joined
from monolith.model.plan.lookup_plan import LookupPlan
from monolith.model.plan.planned_table import DEFAULT_ADMISSION, PlannedFeature, PlannedSlice, PlannedTable
from monolith.model.plan.slices import SliceKey, SliceRequest
from monolith.model.spec import EstimatorSpec
from monolith.tensors import Ragged

NUM_FAKE_EVENTS = 2
"""More than one, so that batch statistics exist and a squeeze too many is noticed."""


_OTHER_TYPES = {torch.int64: torch.float32, torch.float32: torch.int64}
_NEEDED_BY = {Mode.EVAL: "evaluate does", Mode.PREDICT: "predict and export do"}


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a dry run found."""

    plan: LookupPlan
    """What the model looks up, all modes together."""

    layouts: Layouts
    """The tensors in which it reads that."""

    specs: dict[Mode, EstimatorSpec]
    """What it returned, by mode; a mode in which it cannot run is absent."""

    columns_read: dict[Mode, tuple[str, ...]]
    """Columns whose values it read itself, by mode."""


class _WrongLookupError(ValueError):
    """A lookup no mode may ask for; unlike other errors it ends the dry run in every mode."""


class _Recorder:
    """Answers lookups with zeros and remembers them."""

    def __init__(self, model: MonolithModel, schema: Schema, admission: AdmissionConfig) -> None:
        self._columns_of_model = model.feature_columns
        self._admission = admission
        self._types = schema.types
        self._features: dict[str, tuple[FeatureColumn, dict[str, None]]] = {}
        self._slices: dict[str, dict[str, PlannedSlice]] = {}
        self._alone: dict[SliceKey, None] = {}
        self._joined: dict[JoinedSlices, None] = {}

    def read(self, request: SliceRequest) -> Tensor:
        self._alone[request.key] = None
        return self._record(request)

    def join(self, requests: Sequence[SliceRequest], out_type: OutType) -> Tensor:
        parts = [self._record(one) for one in requests]
        keys = tuple(one.key for one in requests)
        if can_be_joined([tuple(part.shape) for part in parts], out_type):
            self._joined[JoinedSlices(keys, out_type)] = None
        else:
            self._alone |= dict.fromkeys(keys)
        return combine(parts, out_type)

    def layouts(self) -> Layouts:
        return Layouts(tuple(self._alone), tuple(self._joined))

    def _record(self, request: SliceRequest) -> Tensor:
        column, planned = request.column, _planned_slice(request)
        self._check_ids(column.name)
        _, asked = self._features.setdefault(column.name, (column, {}))
        asked[request.slice_name] = None
        known = self._slices.setdefault(column.table, {}).setdefault(request.slice_name, planned)
        if known != planned:
            raise _WrongLookupError(
                f"table {column.table!r}, slice {request.slice_name!r} is looked up in two ways: {known} and "
                f"{planned}; make them equal or name another slice"
            )
        length = (column.max_seq_length,) if column.max_seq_length else ()
        return torch.zeros(NUM_FAKE_EVENTS, *length, request.dim, requires_grad=True)

    def plan(self) -> LookupPlan:
        features = tuple(
            PlannedFeature(name, column.table, tuple(asked), column.combiner, column.max_seq_length)
            for name, (column, asked) in self._features.items()
        )
        return LookupPlan(features, tuple(self._planned_table(name) for name in self._slices))

    def _planned_table(self, name: str) -> PlannedTable:
        # The feature that gives the table its name decides admission and expiry of its rows.
        owner = self._columns_of_model[name]
        counts = owner.occurrence_threshold and self._admission.kind != FilterType.NO_FILTER
        return PlannedTable(
            name=name,
            slices=tuple(self._slices[name].values()),
            occurrence_threshold=owner.occurrence_threshold if counts else 0,
            expire_days=owner.expire_time,
            filter_capacity=self._filter_capacity(owner) if counts else 0,
            admission=self._admission if counts else DEFAULT_ADMISSION,
            evict_every_hours=owner.evict_every_hours,
            initial_capacity=owner.initial_capacity,
            extra_restore_names=owner.extra_restore_names,
        )

    def _filter_capacity(self, owner: FeatureColumn) -> int:
        """Return what the feature says, else what the settings of the run say, else the feature's default."""
        setting = self._admission.capacity
        leaves_it_open = owner.filter_capacity == DEFAULT_FILTER_CAPACITY
        return setting if leaves_it_open and setting != DEFAULT_ADMISSION.capacity else owner.filter_capacity

    def _check_ids(self, name: str) -> None:
        found = self._types.get(name)
        if found is None or found.item != "int64":
            why = "has no such column" if found is None else f"has it as {found.item}, and ids are int64"
            raise _WrongLookupError(
                f"the model looks up feature {name!r}, but the source's schema {why}; its columns are "
                f"{', '.join(f'{one} ({kind.item})' for one, kind in self._types.items())}"
            )


def make_plan(model: MonolithModel, schema: Schema, admission: AdmissionConfig = DEFAULT_ADMISSION) -> LookupPlan:
    """Return what the model looks up; no event is consumed and nothing of the model changes."""
    return dry_run(model, schema, admission).plan


def dry_run(model: MonolithModel, schema: Schema, admission: AdmissionConfig = DEFAULT_ADMISSION) -> DryRun:
    """Run `model_fn` once per mode on a made-up batch; TRAIN has to work, the other modes may not, with a warning.

    `admission` says how ids are counted where a feature has a threshold.
    """
    recorder, specs, columns_read = _Recorder(model, schema, admission), {}, {}
    with _unchanged(model):
        for mode in Mode:
            model.train(mode is Mode.TRAIN)
            columns = ColumnsRead(_fake_batch(schema))
            try:
                specs[mode] = run_model_fn(model, recorder, columns, mode)
                columns_read[mode] = tuple(columns.names_read)
            except _WrongLookupError:
                raise
            except Exception as error:
                if mode is Mode.TRAIN:
                    _name_wrong_type(model, recorder, columns, error)
                    raise
                warnings.warn(
                    f"{type(model).__name__} cannot run in mode {mode.upper()} ({type(error).__name__}: {error}); "
                    f"training does not need it, {_NEEDED_BY[mode]}",
                    stacklevel=2,
                )
    plan = recorder.plan()
    return DryRun(plan, recorder.layouts(), specs, columns_read)


def _name_wrong_type(model: MonolithModel, recorder: _Recorder, columns: ColumnsRead, error: Exception) -> None:
    """Raise a ValueError that names the column of whose type an error in `model_fn` complains; else do nothing.

    The model runs again with one column at a time as the other type: where that works, the type is the mistake.
    """
    if not isinstance(error, RuntimeError | TypeError | NotImplementedError):
        return
    for name in columns.names_read:
        value = columns[name]
        if isinstance(value, Ragged) or value.dtype not in _OTHER_TYPES:
            continue
        other = _OTHER_TYPES[value.dtype]
        try:
            run_model_fn(model, recorder, {**columns, name: value.to(other)}, Mode.TRAIN)
        except Exception:  # noqa: BLE001  another column, or another mistake
            continue
        found, wanted = (str(one).removeprefix("torch.") for one in (value.dtype, other))
        raise ValueError(
            f"{type(model).__name__}: model_fn fails because the column {name!r} is {found}; as {wanted} it works. "
            f"Convert it with features[{name!r}].to(torch.{wanted}), or give the column the type {wanted} where the "
            f"data is read. The error was: {error}"
        ) from error


def _planned_slice(request: SliceRequest) -> PlannedSlice:
    column = request.column
    segment = Segment(
        request.dim,
        request.optimizer or column.optimizer,
        request.initializer or column.initializer,
        request.compressor or column.compressor,
    )
    return PlannedSlice(request.slice_name, segment, request.learning_rate)


def _fake_batch(schema: Schema) -> dict[str, Column]:
    return {name: _fake_column(kind) for name, kind in schema.types.items()}


def _fake_column(kind: ColumnType) -> Column:
    dtype = {"int64": torch.int64, "float32": torch.float32, "uint8": torch.uint8}[kind.item]
    if kind.is_ragged:  # one value per event: rows of length 0 and 1 would hide no mistake that others show
        return Ragged(torch.zeros(NUM_FAKE_EVENTS, dtype=dtype), torch.arange(NUM_FAKE_EVENTS + 1))
    return torch.zeros(NUM_FAKE_EVENTS, *kind.event_shape, dtype=dtype)


@contextmanager
def _unchanged(model: MonolithModel) -> Iterator[None]:
    """Undo what a forward pass does on the side: random draws, running statistics, train or eval."""
    training = model.training
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers() if not is_lazy(buffer)}
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        model.train(training)
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in buffers:
                    buffer.copy_(buffers[name])
