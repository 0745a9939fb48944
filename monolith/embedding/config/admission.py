"""AdmissionConfig: how ids are counted before they get a row."""

from dataclasses import dataclass

from monolith.embedding.admission import HASH_FILTER_CAPACITY, HASH_FILTER_SPLIT_NUM, FilterType


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionConfig:
    """How ids of features with an occurrence threshold are counted before they get a row."""

    kind: str = FilterType.SLIDING_HASH_FILTER
    """sliding_hash_filter counts, probabilistic_filter draws, no_filter gives every id a row at once."""

    capacity: int = HASH_FILTER_CAPACITY
    """Different ids that the sliding filter of a table counts at a time. Features that say theirs keep it; this
    default leaves others at theirs."""

    split_num: int = HASH_FILTER_SPLIT_NUM
    """Parts of the sliding filter's ring."""

    equal_probability: bool = True
    """The probabilistic filter has admitted 95 % of the ids after as many sightings as the threshold."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.kind not in list(FilterType):
            raise ValueError(f"filter_type must be one of {', '.join(FilterType)}, got {self.kind!r}")
        if self.capacity < 1 or self.split_num < 1:
            raise ValueError(
                f"filter_capacity and filter_split_num must be positive, got {self.capacity} and {self.split_num}"
            )
