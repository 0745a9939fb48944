"""Ranks of the items of a list, and the order of their scores."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

PADDING = -1e-6
"""A label that says that there is no item."""

ToTensor = Callable[[Tensor], Tensor]


def is_label_valid(labels: Tensor) -> Tensor:
    """Return where there are items."""
    return labels >= 0


def dcg_gain(labels: Tensor) -> Tensor:
    """Return 2^label - 1."""
    return torch.pow(2.0, labels) - 1


def dcg_discount(ranks: Tensor) -> Tensor:
    """Return 1 / ln(1 + rank)."""
    return 1 / torch.log1p(ranks)


def sort_by_scores(scores: Tensor, features_list: Sequence[Tensor], topn: int | None = None) -> list[Tensor]:
    """Return [batch, list] tensors in the order of falling scores, the first `topn` of each list; ties keep theirs.

    >>> scores = torch.tensor([[1.0, 3.0, 2.0]])
    >>> sort_by_scores(scores, [torch.tensor([[10, 30, 20]])], topn=2)
    [tensor([[30, 20]])]
    """
    order = torch.sort(scores, dim=1, descending=True, stable=True).indices[:, :topn]
    return [feature.gather(1, order) for feature in features_list]


def organize_valid_indices(is_valid: Tensor, shuffle: bool = True, seed: int | None = None) -> Tensor:
    """Return an order of each list that has its items first, in random order if wanted, and padding last.

    >>> organize_valid_indices(torch.tensor([[False, True, True]]), shuffle=False)
    tensor([[1, 2, 0]])
    """
    if shuffle:
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        keys = torch.rand(is_valid.shape, generator=generator).to(is_valid.device)
    else:
        keys = torch.linspace(1, 0, is_valid.shape[1], device=is_valid.device).expand(is_valid.shape)
    return torch.sort(torch.where(is_valid, keys, -1.0), dim=1, descending=True, stable=True).indices


def approx_ranks(logits: Tensor, alpha: float = 10.0) -> Tensor:
    """Return ranks, from 1 for the highest, as smooth functions of the scores; the greater alpha, the sharper."""
    pairs = torch.sigmoid(alpha * (logits.unsqueeze(1) - logits.unsqueeze(2)))
    return pairs.sum(2) + 0.5  # an item against itself adds the other half


def inverse_max_dcg(
    labels: Tensor,
    gain_fn: ToTensor = dcg_gain,
    rank_discount_fn: ToTensor = dcg_discount,
    topn: int | None = None,
) -> Tensor:
    """Return 1 / (DCG of the best order) of each list, [batch, 1]; 0 where nothing is to be gained."""
    (ideal,) = sort_by_scores(labels, [labels.clamp_min(0)], topn)
    discount = rank_discount_fn(ranks_of(ideal))
    best = (gain_fn(ideal) * discount).sum(1, keepdim=True)
    return torch.where(best > 0, 1 / best.clamp_min(torch.finfo(best.dtype).tiny), torch.zeros_like(best))


def ranks_of(items: Tensor) -> Tensor:
    """Return 1, 2, ... for each list."""
    return torch.arange(1, items.shape[1] + 1, dtype=items.dtype, device=items.device)


def get_batch_idx_size(logits: Tensor, labels: Tensor, rank_id: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits and labels of events as [lists, longest list]; events with one `rank_id` are a list.

    Lists and their events are in the order in which they come. Padding has logit 0 and a label just below 0.

    >>> scores, labels = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1.0, 0.0, 1.0])
    >>> get_batch_idx_size(scores, labels, torch.tensor([7, 5, 7]))[0]
    tensor([[0.1000, 0.3000],
            [0.2000, 0.0000]])
    """
    ids, logits, labels = rank_id.flatten(), logits.flatten(), labels.flatten()
    if not len(ids) == len(logits) == len(labels):
        raise ValueError(
            f"logits, labels and rank_id must have a number per event, got {len(logits)}, {len(labels)} and {len(ids)}"
        )
    known, group = torch.unique(ids, return_inverse=True)
    places = torch.arange(len(ids), device=ids.device)
    first = torch.full((len(known),), len(ids), device=ids.device).scatter_reduce(0, group, places, "amin")
    row = torch.argsort(torch.argsort(first))[group]
    order = torch.argsort(row, stable=True)
    counts = torch.bincount(row, minlength=len(known))
    column = torch.empty_like(places)
    column[order] = places - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
    shape = (len(known), int(counts.max()) if len(ids) else 0)
    padded_labels = torch.full(shape, PADDING, dtype=labels.dtype, device=labels.device)
    return logits.new_zeros(shape).index_put((row, column), logits), padded_labels.index_put((row, column), labels)
