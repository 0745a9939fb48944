"""Loss and prediction of a head, of its logits and labels."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from monolith.model.layers.logits import LogitCorrection
from monolith.model.modes import Mode


def get_sigmoid_loss_and_pred(
    name: str,
    logits: Tensor,
    label: Tensor | None,
    batch_size: int | None = None,
    sample_rate: Tensor | float = 1.0,
    sample_bias: bool = False,
    mode: Mode | str = Mode.TRAIN,
    instance_weight: Tensor | None = None,
    mask: Tensor | None = None,
    logit_clip_threshold: float | None = None,
    predict_before_correction: bool = True,
) -> tuple[Tensor | None, Tensor]:
    """Return the sum of the events' cross entropy, None in PREDICT, and how likely each event is positive.

    Args:
        name: of the head, for messages.
        logits: a number per event, in any shape.
        label: 0 to 1 per event; not needed in PREDICT.
        batch_size: has no effect; there are as many events as logits.
        sample_rate: which share of events like this one was kept; logits are corrected by −ln of it.
        sample_bias: correct ln σ(logit) instead of the logit.
        mode: what the model is run for.
        instance_weight: factor of each event's loss.
        mask: true for events that count.
        logit_clip_threshold: keep corrected logits within the probabilities t and 1 − t, 0 < t < 1.
        predict_before_correction: predict from the logits as they came.
    """
    logits = logits.flatten()
    rate = sample_rate.flatten() if isinstance(sample_rate, Tensor) else sample_rate
    corrected = LogitCorrection(sample_bias=sample_bias)((logits, rate))
    pred = torch.sigmoid(logits if predict_before_correction else corrected)
    if mode == Mode.PREDICT:
        return None, pred
    if label is None:
        raise ValueError(f"head {name!r} needs a label unless mode is PREDICT")
    if logit_clip_threshold is not None:
        corrected = _clipped(corrected, logit_clip_threshold)
    target = label.flatten().to(logits.dtype)
    if mask is not None:
        # What a masked label says must not reach the gradient either, and 0 · NaN is NaN.
        target = target.masked_fill(~mask.flatten().bool(), 0.0)
    losses = functional.binary_cross_entropy_with_logits(corrected, target, reduction="none")
    if instance_weight is not None:
        losses = losses * instance_weight.flatten()
    if mask is not None:
        losses = losses.masked_fill(~mask.flatten().bool(), 0.0)
    return losses.sum(), pred


def get_softmax_loss_and_pred(
    name: str, logits: Tensor, label: Tensor | None, mode: Mode | str = Mode.TRAIN
) -> tuple[Tensor | None, Tensor]:
    """Return the cross entropy of each event, None in PREDICT, and the likeliest class of each.

    Args:
        name: of the head, for messages.
        logits: [B, classes].
        label: [B, classes], 1 for the class of each event and 0 elsewhere; not needed in PREDICT.
        mode: what the model is run for.
    """
    pred = logits.argmax(dim=-1)
    if mode == Mode.PREDICT:
        return None, pred
    if label is None or label.shape != logits.shape:
        shape = None if label is None else tuple(label.shape)
        raise ValueError(f"head {name!r} needs one-hot labels of shape {tuple(logits.shape)}, got {shape}")
    return functional.cross_entropy(logits, label.to(logits.dtype), reduction="none"), pred


def _clipped(logits: Tensor, threshold: float) -> Tensor:
    if not 0 < threshold < 1:
        raise ValueError(f"logit_clip_threshold must be between 0 and 1, got {threshold}")
    bound = abs(math.log((1 - threshold) / threshold))
    return logits.clamp(-bound, bound)
