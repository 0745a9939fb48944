"""The dense part: rows and columns in, predictions out; the one way in which a model is run."""

from collections.abc import Mapping
from copy import copy

import torch
from torch import Tensor

from monolith.data import Column
from monolith.model.base import MonolithModel
from monolith.model.batch_columns import BatchColumns
from monolith.model.modes import Mode
from monolith.model.plan.slices import PulledKey, PulledSlices, SliceReader
from monolith.model.spec import EstimatorSpec, as_spec, predictions, with_extra_outputs


def run_model_fn(
    model: MonolithModel, reader: SliceReader, features: Mapping[str, Column], mode: Mode
) -> EstimatorSpec:
    """Return what `model_fn` says about a batch whose lookups `reader` answers."""
    model.slice_reader = reader
    try:
        # A copy: model_fn may add columns to it, and the batch must stay as it came.
        columns = copy(features) if isinstance(features, BatchColumns) else BatchColumns(features)
        spec = as_spec(model.model_fn(columns, mode))
        added, extra = model.take_added_losses(), model.take_extra_outputs()
        if spec.loss is not None and added:
            spec = spec._replace(loss=torch.stack([spec.loss, *added]).sum())
        if extra and mode is Mode.PREDICT:
            spec = with_extra_outputs(spec, extra)
        return spec
    finally:
        model.slice_reader = None
        model.take_added_losses()
        model.take_extra_outputs()


def run_dense(
    model: MonolithModel, slices: Mapping[PulledKey, Tensor], features: Mapping[str, Column], mode: Mode
) -> EstimatorSpec:
    """Return what the model says about a batch with these rows."""
    return run_model_fn(model, PulledSlices(slices), features, mode)


def dense(
    model: MonolithModel,
    slices: Mapping[PulledKey, Tensor],
    features: Mapping[str, Column],
    mode: Mode = Mode.PREDICT,
) -> dict[str, Tensor]:
    """Return the predictions of a batch by head; the same for eager runs and for export."""
    return predictions(run_dense(model, slices, features, mode))
