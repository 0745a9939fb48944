"""Ids moved to another slot, for features that share what they learn."""

from collections.abc import Mapping
from dataclasses import dataclass

from monolith.data.batch import Batch, Column
from monolith.data.transforms.columns import get_int_lists
from monolith.data.transforms.step import Transform
from monolith.features.fid import switch_slot_v1, switch_slot_v2
from monolith.tensors import Ragged


def switch_slot(ragged: Ragged, slot: int, fid_version: int = 2) -> Ragged:
    """Return ids with the same signatures in another slot.

    >>> switch_slot(Ragged.from_lists([[(5 << 48) | 1]]), 2).values.item() == (2 << 48) | 1
    True
    """
    if fid_version not in (1, 2):
        raise ValueError(f"switch_slot: fid_version must be 1 or 2, got {fid_version}")
    switch = switch_slot_v1 if fid_version == 1 else switch_slot_v2
    return ragged.with_values(switch(ragged.values, slot))


@dataclass(frozen=True)
class SwitchSlot(Transform):
    """Moves the ids of columns to other slots, in place or into a new column '<name>_<suffix>'."""

    features: Mapping[str, tuple[bool, int]]
    """Name of a column: whether it is changed in place, and the slot."""

    suffix: str = "share"
    fid_version: int = 2

    def __post_init__(self) -> None:
        """Reject an empty mapping, and two results of one name."""
        if not self.features:
            raise ValueError("SwitchSlot: features is empty")
        object.__setattr__(self, "features", dict(self.features))

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with the ids in their new slots."""
        columns: dict[str, Column] = dict(batch.columns)
        for name, (inplace, slot) in self.features.items():
            ids = get_int_lists(batch, name, "SwitchSlot")
            columns[name if inplace else f"{name}_{self.suffix}"] = switch_slot(ids, slot, self.fid_version)
        return batch.with_columns(columns)
