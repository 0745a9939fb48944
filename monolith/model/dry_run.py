"""The dry run: what a model looks up, found by running it once per mode on a made-up batch."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from monolith.data import Schema
from monolith.embedding import Segment
from monolith.model.base import MonolithModel
from monolith.model.dense import run_model_fn
from monolith.model.feature_column import FeatureColumn
from monolith.model.modes import Mode
from monolith.model.plan import LookupPlan
from monolith.model.planned_feature import PlannedFeature, PlannedSlice
from monolith.model.slices import SliceRequest
from monolith.model.spec import EstimatorSpec

NUM_FAKE_EVENTS = 2
"""More than one, so that batch statistics exist and a squeeze too many is noticed."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a dry run found."""

    plan: LookupPlan
    """What the model looks up, all modes together."""

    specs: dict[Mode, EstimatorSpec]
    """What it returned, by mode; a mode in which it cannot run is absent."""


class _WrongLookupError(ValueError):
    """A lookup no mode may ask for; unlike other errors it ends the dry run in every mode."""


class _Recorder:
    """Answers lookups with zeros and remembers them."""

    def __init__(self, schema: Schema) -> None:
        self._dtypes = dict(schema.columns)
        self._columns: dict[str, FeatureColumn] = {}
        self._slices: dict[str, dict[str, PlannedSlice]] = {}

    def read(self, request: SliceRequest) -> Tensor:
        column, planned = request.column, _planned_slice(request)
        dtype = self._dtypes.get(column.name)
        if dtype != "int64":
            why = "has no such column" if dtype is None else f"has it as {dtype}, and ids are int64"
            raise _WrongLookupError(
                f"the model looks up feature {column.name!r}, but the source's schema {why}; its columns are "
                f"{', '.join(f'{name} ({kind})' for name, kind in self._dtypes.items())}"
            )
        self._columns[column.name] = column
        known = self._slices.setdefault(column.name, {}).setdefault(request.slice_name, planned)
        if known != planned:
            raise _WrongLookupError(
                f"feature {column.name!r}, slice {request.slice_name!r} is looked up in two ways: {known} and "
                f"{planned}; make them equal or name another slice"
            )
        return torch.zeros(NUM_FAKE_EVENTS, request.dim, requires_grad=True)

    def plan(self) -> LookupPlan:
        return LookupPlan(
            tuple(
                PlannedFeature(
                    name=name,
                    slices=tuple(self._slices[name].values()),
                    occurrence_threshold=column.occurrence_threshold,
                    expire_days=column.expire_time,
                    filter_capacity=column.filter_capacity if column.occurrence_threshold else 0,
                )
                for name, column in self._columns.items()
            )
        )


def make_plan(model: MonolithModel, schema: Schema) -> LookupPlan:
    """Return what the model looks up; no event is consumed and nothing of the model changes."""
    return dry_run(model, schema).plan


def dry_run(model: MonolithModel, schema: Schema) -> DryRun:
    """Run `model_fn` once per mode on a made-up batch; TRAIN has to work, the other modes may not, with a warning."""
    recorder, specs = _Recorder(schema), {}
    with _unchanged(model):
        for mode in Mode:
            model.train(mode is Mode.TRAIN)
            try:
                specs[mode] = run_model_fn(model, recorder, _fake_batch(schema), mode)
            except _WrongLookupError:
                raise
            except Exception as error:
                if mode is Mode.TRAIN:
                    raise
                warnings.warn(
                    f"{type(model).__name__} cannot run in mode {mode.upper()} ({type(error).__name__}: {error}); "
                    "training does not need it",
                    stacklevel=2,
                )
    plan = recorder.plan()
    if not plan.features:
        raise ValueError(f"{type(model).__name__} looks up no feature; call lookup_embedding_slice in model_fn")
    return DryRun(plan, specs)


def _planned_slice(request: SliceRequest) -> PlannedSlice:
    column = request.column
    segment = Segment(
        request.dim,
        request.optimizer or column.optimizer,
        request.initializer or column.initializer,
        request.compressor or column.compressor,
    )
    return PlannedSlice(request.slice_name, segment, request.learning_rate)


def _fake_batch(schema: Schema) -> dict[str, Tensor]:
    dtypes = {"int64": torch.int64, "float32": torch.float32}
    return {name: torch.zeros(NUM_FAKE_EVENTS, dtype=dtypes[dtype]) for name, dtype in schema.columns}


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
