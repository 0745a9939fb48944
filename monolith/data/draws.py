"""Draws: random numbers that depend on a seed and a name alone, never on what was drawn before."""

import hashlib
import json

import numpy as np
import torch
from torch import Tensor

from monolith.data.batch import Batch


def uniforms(seed: int, *name: str | int, count: int) -> Tensor:
    """Return `count` float64 numbers in [0, 1), the same for the same seed and name in every process.

    >>> bool((uniforms(1, "a", count=3) == uniforms(1, "a", count=5)[:3]).all())
    True
    """
    digest = hashlib.blake2b(json.dumps([seed, *name]).encode(), digest_size=16).digest()
    bits = np.random.Philox(key=np.frombuffer(digest, np.uint64).copy())
    return torch.from_numpy(np.random.Generator(bits).random(count))


def batch_uniforms(seed: int, batch: Batch, purpose: str, count: int) -> Tensor:
    """Return numbers in [0, 1) for a batch: they depend on the seed, the purpose and the batch's name.

    Args:
        seed: Seed of the step.
        batch: What is drawn for; its partition and first offset count, its events do not.
        purpose: Steps of one seed draw different numbers if their purposes differ.
        count: How many.
    """
    return uniforms(seed, purpose, batch.partition, batch.first, count=count)


def permutation(seed: int, *name: str | int, count: int) -> Tensor:
    """Return 0 to `count - 1` in an order that depends on the seed and the name.

    >>> sorted(permutation(1, "a", count=4).tolist())
    [0, 1, 2, 3]
    """
    return torch.argsort(uniforms(seed, *name, count=count), stable=True)
