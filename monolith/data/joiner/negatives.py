"""Down-sampling of negatives, and what it does to probabilities."""

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from monolith.data.joiner.keys import Hashes, mix64

Logit = TypeVar("Logit", float, Tensor)


def keep_mask(hashes: Hashes, rate: float, seed: int) -> NDArray[np.bool_]:
    """Say which keys are kept, each with probability `rate`; the seed and the key's hash alone decide."""
    salt = mix64(np.array([seed % (1 << 64)], np.uint64) + np.uint64(1))
    uniform = (mix64(hashes ^ salt) >> np.uint64(11)) * 2.0**-53
    kept: NDArray[np.bool_] = uniform < rate
    return kept


def corrected_logit(logit: Logit, negative_keep_rate: float) -> Logit:
    """Return the logit of the true probability, given that of a model trained on down-sampled negatives.

    Keeping a share r of the negatives and all positives multiplies the odds p / (1 - p) by 1 / r; so the true logit
    is the model's **plus ln(r)**, which lowers it, for positives and negatives alike. Do this where predictions are
    served. Or train on `logit - ln(r)` for all events: then the model's own logit is the true one. Weighting each
    event by `1 / sample_rate` has the same aim and needs neither.

    >>> true = 0.01
    >>> sampled = true / (true + 0.1 * (1 - true))  # what a model learns if a tenth of the negatives is kept
    >>> odds = math.exp(corrected_logit(math.log(sampled / (1 - sampled)), 0.1))
    >>> round(odds / (1 + odds), 12)
    0.01
    """
    if not 0 < negative_keep_rate <= 1:
        raise ValueError(f"negative_keep_rate must be above 0 and at most 1, got {negative_keep_rate}")
    return logit + math.log(negative_keep_rate)
