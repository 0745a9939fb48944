"""Labels taken from fields of the event."""

from dataclasses import dataclass

import torch

from monolith.data.batch import Batch
from monolith.data.transforms.columns import get_ints, get_numbers
from monolith.data.transforms.labels.column import LABEL, get_labels, with_labels
from monolith.data.transforms.step import Transform


@dataclass(frozen=True)
class UseFieldAsLabel(Transform):
    """Raises every label to the value of a field: the higher of the two stays."""

    field_name: str

    overwrite_invalid_value: bool = False
    """Whether a value of `label_threshold` or more is no valid one and counts as 0."""

    label_threshold: float = 7200.0

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with labels from the field; one per event where there were none."""
        values = get_numbers(batch, self.field_name, "UseFieldAsLabel").to(torch.float32)[:, None]
        if self.overwrite_invalid_value:
            values = torch.where(values >= self.label_threshold, 0.0, values)
        if LABEL not in batch.columns:
            return batch.with_columns({**batch.columns, LABEL: values[:, 0]})
        return with_labels(batch, torch.maximum(get_labels(batch, "UseFieldAsLabel"), values))


@dataclass(frozen=True)
class FillMultiRankOutput(Transform):
    """Appends a rank as a label: from "is_draw", from "chnid" or from "rank", by the first that is enabled."""

    enable_draw_as_rank: bool = False
    """0, or 1 if the event was drawn."""

    enable_chnid_as_rank: bool = False
    """0 and 1 for these channels, 2 for all others."""

    enable_lineid_rank_as_rank: bool = False
    """The rank of the event, at most `rank_num - 1`."""

    rank_num: int = 18

    def __post_init__(self) -> None:
        """Reject that none is enabled."""
        if not (self.enable_draw_as_rank or self.enable_chnid_as_rank or self.enable_lineid_rank_as_rank):
            raise ValueError(
                "FillMultiRankOutput: set one of enable_draw_as_rank, enable_chnid_as_rank, enable_lineid_rank_as_rank"
            )
        if self.rank_num <= 0:
            raise ValueError(f"FillMultiRankOutput: rank_num must be positive, got {self.rank_num}")

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with one label more."""
        step = "FillMultiRankOutput"
        if self.enable_draw_as_rank:
            rank = (get_ints(batch, "is_draw", step) != 0).to(torch.int64)
        elif self.enable_chnid_as_rank:
            chnid = get_ints(batch, "chnid", step)
            rank = torch.where((chnid == 0) | (chnid == 1), chnid, 2)
        else:
            rank = get_ints(batch, "rank", step).clamp(max=self.rank_num - 1)
        before = get_labels(batch, step) if LABEL in batch.columns else torch.empty(len(batch), 0)
        return with_labels(batch, torch.cat([before, rank.to(torch.float32)[:, None]], 1))
