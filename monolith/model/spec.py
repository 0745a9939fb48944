"""What `model_fn` returns."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from monolith.model.extra_outputs import ExtraOutputs, output_name

Heads = Tensor | Mapping[str, Tensor]
"""One tensor, or one per head."""

LOWEST_LABEL = -1e30
"""Below it lies only the mark of a missing label, the lowest float32."""

DEFAULT_HEAD = "pred"
"""Name of the only head when the model names none."""


class _SpecFields(NamedTuple):
    label: Heads | None
    """What was observed; None when predicting."""

    pred: Heads
    """What the model expects: a probability where `classification`."""

    head_name: str | None = None
    """Names the output of a model with one head."""

    loss: Tensor | None = None
    """A scalar to minimise; None when predicting."""

    optimizer: torch.optim.Optimizer | None = None
    """Steps the dense weights; rows have their own."""

    classification: bool = True
    """Whether AUC means anything for it."""

    extra_outputs: Mapping[str, ExtraOutputs] | None = None
    """Predictions that are no heads, by signature; `MonolithModel.add_extra_output` fills it."""


class EstimatorSpec(_SpecFields):
    """What a model says about one batch.

    >>> EstimatorSpec(label=None, pred=torch.zeros(2)).classification
    True
    """

    __slots__ = ()

    def _replace(self, **changes: Any) -> "EstimatorSpec":
        """Return a copy with other values; the mode a spec was made in is no field of it and cannot change."""
        if "mode" in changes:
            raise ValueError("the mode of an EstimatorSpec cannot be changed; run model_fn in the other mode")
        return EstimatorSpec(**{**self._asdict(), **changes})


def as_spec(result: object) -> EstimatorSpec:
    """Return what `model_fn` returned as a spec: itself, or made from (label, loss, pred)."""
    if isinstance(result, EstimatorSpec):
        return result
    if isinstance(result, tuple) and len(result) == 3:
        label, loss, pred = result
        return EstimatorSpec(label=label, pred=pred, loss=loss)
    raise ValueError(
        "EstimatorSpec Error! model_fn must return an EstimatorSpec or (label, loss, pred), got "
        f"{type(result).__name__}"
    )


def heads(spec: EstimatorSpec) -> dict[str, Tensor]:
    """Return the predictions of the heads, by name of the head."""
    if isinstance(spec.pred, Mapping):
        return dict(spec.pred)
    return {spec.head_name or DEFAULT_HEAD: spec.pred}


def predictions(spec: EstimatorSpec) -> dict[str, Tensor]:
    """Return all predictions by name: those of the heads, then the extra outputs."""
    found = heads(spec)
    for signature, extra in (spec.extra_outputs or {}).items():
        for key, value in extra.outputs.items():
            name = output_name(signature, key)
            if name in found:
                raise KeyError(f"key {name} exists!")
            found[name] = value
    return found


def with_extra_outputs(spec: EstimatorSpec, extra: Mapping[str, ExtraOutputs]) -> EstimatorSpec:
    """Return a spec that predicts these tensors too; a name that is a prediction already is a KeyError."""
    made = spec._replace(extra_outputs={**(spec.extra_outputs or {}), **extra})
    predictions(made)  # raises, if a name is taken
    return made


def labels(spec: EstimatorSpec) -> dict[str, Tensor]:
    """Return the labels by name of their head; nothing when the model gave none."""
    if spec.label is None:
        return {}
    if isinstance(spec.label, Mapping):
        return dict(spec.label)
    if isinstance(spec.pred, Mapping):
        raise ValueError(
            f"EstimatorSpec Error! pred has the heads {', '.join(spec.pred)}, so label must be a dict of the same heads"
        )
    return {spec.head_name or DEFAULT_HEAD: spec.label}


def observations(spec: EstimatorSpec) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    """Yield head, predictions, labels and the mask of events, for heads with a label; events without one are left out.

    A label below `LOWEST_LABEL`, as label generation gives to events that say nothing about a head, is none.
    """
    observed = labels(spec)
    for head, scores in predictions(spec).items():
        if head in observed:
            # Metrics are computed on the processor, wherever the predictions were made.
            flat, label = scores.reshape(-1).cpu(), observed[head].reshape(-1).cpu()
            if len(flat) != len(label):
                raise ValueError(f"head {head!r} has {len(flat)} predictions for {len(label)} labels")
            kept = label > LOWEST_LABEL
            # Usually all of them are, and copies would cost a training step more than anything else around the net.
            yield (head, flat, label, kept) if bool(kept.all()) else (head, flat[kept], label[kept], kept)
