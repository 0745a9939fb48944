"""Which slot belongs to which feature name."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from monolith.features.fid import NUM_SLOTS_V2

_NUMBERED_NAME = re.compile(r"(?:fc_)?slot_(?:.*_)?(\d+)")


class SlotMap:
    """Feature names and their slots. What a name was given once it keeps: nothing is ever renumbered.

    A name that was not registered gets the number it ends with if it looks like `slot_7` or `fc_slot_7`, otherwise the
    next number from 1 on that is free. Keep `to_json` with the model: rows of the tables are stored under these slots.

    >>> slots = SlotMap()
    >>> slots.register({"uid": 1})
    >>> slots.slot_of("uid"), slots.slot_of("fc_slot_300"), slots.slot_of("gender")
    (1, 300, 2)
    >>> SlotMap.from_json(slots.to_json()).slot_of("gender")
    2
    """

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._tob_env = False
        # Slots that the counter gave away. A name may ask for such a number later, and must not get it.
        self._counted: dict[int, str] = {}

    def enable_tob_env(self) -> None:
        """Write names of numbered slots as fc_slot_N from now on."""
        self._tob_env = True

    def feature_name_of(self, slot: int) -> str:
        """Return the name of a numbered slot: slot_N, or fc_slot_N after `enable_tob_env`.

        >>> SlotMap().feature_name_of(7)
        'slot_7'
        """
        _check_slot(slot)
        return f"fc_slot_{slot}" if self._tob_env else f"slot_{slot}"

    def slot_of(self, feature_name: str) -> int:
        """Return the slot of a feature, which it keeps from now on."""
        known = self._slots.get(feature_name)
        if known is not None:
            return known
        numbered = _NUMBERED_NAME.fullmatch(feature_name)
        if numbered is not None:
            slot = int(numbered.group(1))
            self._take(feature_name, slot)
            return slot
        taken = set(self._slots.values())
        slot = next((slot for slot in range(1, NUM_SLOTS_V2) if slot not in taken), NUM_SLOTS_V2)
        self._take(feature_name, slot)
        self._counted[slot] = feature_name
        return slot

    def register(self, slots: Mapping[str, int] | Iterable[int]) -> None:
        """Fix the slots of names, or name slots by their number; several names may share a slot on purpose.

        Raises:
            ValueError: A name has another slot already, or a slot is out of range; then nothing is registered.
        """
        named = slots if isinstance(slots, Mapping) else {self.feature_name_of(slot): slot for slot in slots}
        for name, slot in named.items():
            if not name:
                raise ValueError("a feature needs a name")
            self._check(name, slot)
        self._slots.update(named)

    def names(self) -> dict[str, int]:
        """Return all names that have a slot by now."""
        return dict(self._slots)

    def to_json(self) -> str:
        """Return the map as JSON; equal maps give equal text.

        >>> slots = SlotMap()
        >>> _ = slots.slot_of("uid")
        >>> slots.to_json()
        '{"counted":[1],"slots":{"uid":1},"tob_env":false}'
        """
        content = {"counted": sorted(self._counted), "slots": self._slots, "tob_env": self._tob_env}
        return json.dumps(content, separators=(",", ":"), sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "SlotMap":
        """Return the map that `to_json` wrote; `ValueError` if the text is anything else."""
        try:
            content: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"a slot map must be JSON, got {text[:80]!r} ({error})") from error
        if not _is_slot_map(content):
            raise ValueError(
                f'a slot map must look like {{"counted":[2],"slots":{{"uid":2}},"tob_env":false}}, got {text[:80]!r}'
            )
        made = cls()
        made.register(content["slots"])
        made._tob_env = content["tob_env"]
        by_slot = {slot: name for name, slot in content["slots"].items()}
        made._counted = {slot: by_slot[slot] for slot in content["counted"]}
        return made

    def _take(self, name: str, slot: int) -> None:
        self._check(name, slot)
        self._slots[name] = slot

    def _check(self, name: str, slot: int) -> None:
        _check_slot(slot)
        known = self._slots.get(name, slot)
        if known != slot:
            raise ValueError(
                f"feature {name!r} has slot {known} and cannot get slot {slot}: slots are never renumbered"
            )
        owner = self._counted.get(slot, name)
        if owner != name:
            raise ValueError(
                f"slot {slot} of feature {name!r} was given to {owner!r}, which had none of its own; "
                f"register the slots of all features before they are used"
            )


def get_slot_feature_name(slot: int) -> str:
    """Return the name of a numbered slot, in the map of this process."""
    return PROCESS_SLOTS.feature_name_of(slot)


def get_slot_from_feature_name(feature_name: str) -> int:
    """Return the slot of a feature, in the map of this process."""
    return PROCESS_SLOTS.slot_of(feature_name)


def register_slots(slots: Mapping[str, int] | Iterable[int]) -> None:
    """Fix the slots of features, in the map of this process."""
    PROCESS_SLOTS.register(slots)


def enable_tob_env() -> None:
    """Write names of numbered slots as fc_slot_N, in this process."""
    PROCESS_SLOTS.enable_tob_env()


PROCESS_SLOTS = SlotMap()
"""The map that the functions of this module use; code that can pass a map along should make its own."""


def _check_slot(slot: int) -> None:
    if slot >= NUM_SLOTS_V2:
        raise ValueError(f"slot should be less than {NUM_SLOTS_V2}, while got {slot}")
    if slot < 0:
        raise ValueError(f"slot should not be negative, while got {slot}")


def _is_slot_map(content: Any) -> bool:
    if not isinstance(content, dict) or content.keys() != {"counted", "slots", "tob_env"}:
        return False
    slots, counted = content["slots"], content["counted"]
    return (
        isinstance(slots, dict)
        and all(type(slot) is int for slot in slots.values())
        and isinstance(counted, list)
        and all(type(slot) is int and slot in slots.values() for slot in counted)
        and isinstance(content["tob_env"], bool)
    )
