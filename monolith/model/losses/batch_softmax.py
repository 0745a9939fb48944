"""Softmax over the items of the batch, corrected for how often they come."""

import torch
from torch import Tensor
from torch.nn import functional


def batch_softmax_loss(
    query: Tensor,
    item: Tensor,
    item_step_interval: Tensor,
    r: Tensor | float,
    normalize: bool = True,
    temperature: float = 1.0,
) -> Tensor:
    """Return −Σ rᵢ·ln(share of item i among all items of the batch, for query i).

    Args:
        query: [B, D].
        item: [B, D]; row i is the item of query i.
        item_step_interval: [B], steps between two occurrences of the item; it comes with probability 1/interval.
        r: weight of each event.
        normalize: use vectors of length 1.
        temperature: divides the similarities.
    """
    if temperature <= 0:
        raise ValueError(f"temperature should be positive, while got {temperature}")
    if normalize:
        # The original's epsilon, which only matters for vectors shorter than 1e-6.
        query, item = functional.normalize(query, dim=1, eps=1e-6), functional.normalize(item, dim=1, eps=1e-6)
    similarity = query @ item.transpose(0, 1) / temperature
    corrected = similarity + item_step_interval.flatten().to(similarity.dtype).clamp_min(1).log()
    shares = torch.log_softmax(corrected, dim=1).diagonal()
    return -(torch.as_tensor(r, dtype=shares.dtype, device=shares.device).flatten() * shares).sum()
