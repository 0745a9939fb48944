"""Which features a run reads, so that the others need not be read at all."""

from collections.abc import Iterable

from monolith.features.feature_list import FeatureList
from monolith.features.slots import get_slot_feature_name


class UsedFeatures:
    """Names of the features that somebody said are used, in the order in which they said so.

    Columns can be left out of an ExampleBatch, which holds them one by one; other records are read whole, and nothing
    is noted for them.

    >>> features = FeatureList.parse_text("feature_name=fc_user slot=1")
    >>> used = UsedFeatures(features)
    >>> used.add(["user", "label"])
    >>> used.add_by_fids([1 << 48 | 77])
    >>> used.names()
    ['fc_user', 'label']

    Args:
        feature_list: What names and slots stand for; without one a name stands for itself.
        example_batch: Whether the records are ExampleBatches.
    """

    def __init__(self, feature_list: FeatureList | None = None, *, example_batch: bool = True) -> None:
        self.begin(feature_list, example_batch=example_batch)

    def begin(self, feature_list: FeatureList | None, *, example_batch: bool) -> None:
        """Forget everything, and go by this list from now on."""
        self.feature_list = feature_list
        self.example_batch = example_batch
        self._names: dict[str, None] = {}

    def add(self, features: str | int | Iterable[str | int]) -> None:
        """Say that features are used: one or more names or slots."""
        if not self.example_batch:
            return
        wanted = [features] if isinstance(features, (str, int)) else list(features)
        self._names.update(dict.fromkeys(self._name_of(feature) for feature in wanted))

    def add_by_fids(self, fids: int | Iterable[int], fid_version: int = 2) -> None:
        """Say that the features are used that these fids belong to, by their slots.

        Raises:
            LookupError: "Cannot find feature name for fid: ...": no feature of the list has its slot, or there is no
                list.
        """
        if not self.example_batch:
            return
        wanted = [fids] if isinstance(fids, int) else list(fids)
        features = self.feature_list if self.feature_list is not None else FeatureList()
        self._names.update(dict.fromkeys(features.names_of_fids(wanted, fid_version)))

    def names(self) -> list[str]:
        """Return the names."""
        return list(self._names)

    def _name_of(self, feature: str | int) -> str:
        known = None if self.feature_list is None else self.feature_list.get(feature)
        if known is not None:
            return known.feature_name
        # Labels and line ids are columns of a batch too, and no features of a list.
        return feature if isinstance(feature, str) else get_slot_feature_name(feature)


PROCESS_FEATURES = UsedFeatures(example_batch=False)
"""What the functions of this module note; code that can pass an object along should make its own."""


def use_example_batch(feature_list: FeatureList | None = None) -> None:
    """Begin anew in this process: the records are ExampleBatches, with the features of this list."""
    PROCESS_FEATURES.begin(feature_list, example_batch=True)


def is_example_batch() -> bool:
    """Return whether the records of this process are ExampleBatches, as `use_example_batch` says."""
    return PROCESS_FEATURES.example_batch


def add_feature(features: str | int | Iterable[str | int]) -> None:
    """Say that features are used in this process, by names or slots."""
    PROCESS_FEATURES.add(features)


def add_feature_by_fids(fids: int | Iterable[int], fid_version: int = 2) -> None:
    """Say that the features of these fids are used in this process; LookupError if one belongs to none."""
    PROCESS_FEATURES.add_by_fids(fids, fid_version)


def get_valid_features() -> list[str]:
    """Return the names of the features that are used in this process."""
    return PROCESS_FEATURES.names()
