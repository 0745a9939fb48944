"""Filters by the ids and the actions of an event."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from monolith.data.batch import Batch
from monolith.data.transforms.columns import get_int_lists, get_ints, id_columns, rows_with_any, signed_ids
from monolith.data.transforms.step import Filter
from monolith.features.fid import NUM_SLOTS_V1, NUM_SLOTS_V2, slot_of_v1, slot_of_v2
from monolith.tensors import Ragged


@dataclass(frozen=True)
class FilterByFid(Filter):
    """Keeps events by the ids they hold; every condition that is set must be met.

    >>> batch = Batch({"uid": Ragged.from_lists([[1], [2], [1, 3]])}, first=0, last=3)
    >>> FilterByFid(has_fids=[1], filter_fids=[3]).mask(batch).tolist()
    [True, False, False]
    """

    has_fids: Sequence[int] | None = None
    """At least one of these is there."""

    filter_fids: Sequence[int] | None = None
    """None of these is there."""

    select_fids: Sequence[int] | None = None
    """All of these are there."""

    has_actions: Sequence[int] | None = None
    """At least one of these actions is there."""

    req_time_min: int = 0
    """The request is not older than this."""

    select_slots: Sequence[int] | None = None
    """An id of each of these slots is there."""

    columns: Sequence[str] | None = None
    """Columns of ids; None for all ragged int64 columns but those of LineId."""

    fid_version: int = 2
    """How ids carry their slot: 15 bits below the sign (2), or the top 10 bits (1)."""

    def __post_init__(self) -> None:
        """Reject slots and versions that do not exist."""
        if self.fid_version not in (1, 2):
            raise ValueError(f"FilterByFid: fid_version must be 1 or 2, got {self.fid_version}")
        num_slots = NUM_SLOTS_V1 if self.fid_version == 1 else NUM_SLOTS_V2
        for slot in self.select_slots or ():
            if not 0 <= slot < num_slots:
                raise ValueError(f"FilterByFid: slots are 0 to {num_slots - 1}, got {slot}")
        for name in ("has_fids", "filter_fids", "select_fids", "has_actions", "select_slots", "columns"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"FilterByFid: {name} must be a list, got {getattr(self, name)!r}")
            object.__setattr__(self, name, None if getattr(self, name) is None else tuple(getattr(self, name)))

    def mask(self, batch: Batch) -> Tensor:
        """Return which events meet all conditions."""
        keep = torch.ones(len(batch), dtype=torch.bool)
        if self.req_time_min > 0:
            keep &= get_ints(batch, "req_time", "FilterByFid") >= self.req_time_min
        if self.has_actions:
            keep &= FilterByAction(self.has_actions).mask(batch)
        if self.has_fids or self.filter_fids or self.select_fids or self.select_slots:
            keep &= self._mask_of_ids(id_columns(batch, self.columns, "FilterByFid"), len(batch))
        return keep

    def _mask_of_ids(self, columns: list[Ragged], num_events: int) -> Tensor:
        keep = torch.ones(num_events, dtype=torch.bool)
        if self.filter_fids:
            keep &= ~_any_column(columns, signed_ids(self.filter_fids), num_events)
        if self.has_fids:
            keep &= _any_column(columns, signed_ids(self.has_fids), num_events)
        for fid in self.select_fids or ():
            keep &= _any_column(columns, signed_ids([fid]), num_events)
        if self.select_slots:
            slots_of = slot_of_v1 if self.fid_version == 1 else slot_of_v2
            slots = [column.with_values(slots_of(column.values)) for column in columns]
            for slot in self.select_slots:
                keep &= _any_column(slots, torch.tensor([slot]), num_events)
        return keep


@dataclass(frozen=True)
class FilterByAction(Filter):
    """Keeps events that have at least one of the actions, in column "actions"."""

    has_actions: Sequence[int]

    def __post_init__(self) -> None:
        """Reject an empty list, which would drop everything."""
        if not self.has_actions:
            raise ValueError("FilterByAction: has_actions is empty, which no event would pass")
        object.__setattr__(self, "has_actions", tuple(self.has_actions))

    def mask(self, batch: Batch) -> Tensor:
        """Return which events have one of the actions."""
        return rows_with_any(get_int_lists(batch, "actions", "FilterByAction"), torch.tensor(self.has_actions))


def _any_column(columns: list[Ragged], wanted: Tensor, num_events: int) -> Tensor:
    found = torch.zeros(num_events, dtype=torch.bool)
    for column in columns:
        found |= rows_with_any(column, wanted)
    return found
