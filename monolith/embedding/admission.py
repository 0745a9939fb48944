"""Admission: an id gets a row only after it was seen often enough."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from os import PathLike, fspath
from typing import Any

import torch
from torch import Tensor

from monolith._core import native
from monolith.embedding.hash_shards import WHOLE, HashShard, check_shard

HASH_FILTER_CAPACITY = 300000000
"""Ids a sliding filter remembers unless told otherwise."""

HASH_FILTER_SPLIT_NUM = 7
"""Parts of a sliding filter's ring, and files of its save, unless told otherwise."""


class FilterType(StrEnum):
    """The kinds of filter."""

    SLIDING_HASH_FILTER = "sliding_hash_filter"
    """Counts sightings in bounded memory; exact but for rare collisions."""

    PROBABILISTIC_FILTER = "probabilistic_filter"
    """Admits by chance; takes no memory."""

    NO_FILTER = "no_filter"
    """Admits every id at once."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotOccurrenceThresholdConfig:
    """How often an id must have been seen before it gets a row: it is admitted at sighting number threshold + 1."""

    default_occurrence_threshold: int = 0
    """For slots not named below; 0 admits at once and counts nothing."""

    slot_occurrence_thresholds: Mapping[int, int] = field(default_factory=dict)
    """By slot (fid v2, 0 to 32767)."""

    def __post_init__(self) -> None:
        """Reject thresholds and slots that mean nothing."""
        for threshold in (self.default_occurrence_threshold, *self.slot_occurrence_thresholds.values()):
            if not 0 <= threshold < 2**32:
                raise ValueError(f"an occurrence threshold must be 0 to 2**32 - 1, got {threshold}")
        for slot in self.slot_occurrence_thresholds:
            if not 0 <= slot < 2**15:
                raise ValueError(f"occurrence threshold given for slot {slot}; slots are 0 to {2**15 - 1}")

    def to_native(self) -> native.SlotThresholds:
        """Return the lookup table the core uses."""
        return native.SlotThresholds(self.default_occurrence_threshold, dict(self.slot_occurrence_thresholds))


NO_THRESHOLDS = SlotOccurrenceThresholdConfig()


class AdmissionFilter:
    """An admission filter with its thresholds; tables may share its `native_filter`."""

    def __init__(
        self, native_filter: native.AdmissionFilter, *, name: str, thresholds: SlotOccurrenceThresholdConfig
    ) -> None:
        """Join filter and thresholds; a threshold the filter could never let an id pass is a ValueError."""
        self.native_filter = native_filter
        self.native_thresholds = thresholds.to_native()
        self.name = name
        self.thresholds = thresholds
        native_filter.check_thresholds(self.native_thresholds)

    def should_be_filtered(self, ids: Tensor) -> Tensor:
        """Count each id once, in order, and return a bool per id: True means it gets no row yet.

        A probabilistic filter decides only for a table, which knows what ids are new; here it filters nothing.
        """
        if ids.dtype != torch.int64:
            raise TypeError(f"filter {self.name!r}: ids must be int64, got {ids.dtype}; convert them with .long()")
        flat = ids.detach().cpu().contiguous().view(-1)
        filtered = torch.empty(flat.shape, dtype=torch.bool)
        self.native_filter.filter_ids(self.native_thresholds, flat, filtered)
        return filtered.view(ids.shape).to(ids.device)

    def forget(self, ids: Tensor) -> Tensor:
        """Let the counts of ids go, and those of others that cannot be told from them; return the ids that had one.

        Only a sliding filter counts ids. One that admits by chance knows nothing of them.
        """
        counts = self.native_filter
        if not isinstance(counts, native.SlidingHashFilter):
            return ids[:0]
        return torch.tensor([one for one in ids.tolist() if counts.forget(one)], dtype=torch.int64)

    @property
    def num_draws(self) -> int:
        """Draws that a probabilistic filter has made; 0 for other kinds. A filter set to it goes on exactly."""
        return self.native_filter.num_draws if isinstance(self.native_filter, native.ProbabilisticFilter) else 0

    @num_draws.setter
    def num_draws(self, count: int) -> None:
        if isinstance(self.native_filter, native.ProbabilisticFilter):
            self.native_filter.num_draws = count

    def save(self, basename: str | PathLike[str]) -> None:
        """Write ``<basename>-00000-of-0000N`` and so on, one file per split; nothing where there is no state."""
        self.native_filter.save(fspath(basename))

    def track_changes(self, on: bool) -> None:
        """From now on, or no longer, know what changes; there are no changes yet."""
        self.native_filter.track_changes(on)

    def freeze(self, *, take_changes: bool = False) -> bool:
        """Keep what the filter is now, while it goes on counting, until it is saved or dropped.

        With `take_changes`, and if they are tracked, what changed since they were last taken can be saved alone;
        returns whether it can.
        """
        return self.native_filter.freeze(take_changes)

    def save_frozen(self, basename: str | PathLike[str]) -> None:
        """Write what the filter was when it was frozen, as `save` does."""
        self.native_filter.save_frozen(fspath(basename))

    def save_frozen_changes(self, name: str | PathLike[str]) -> None:
        """Write the changes that were taken with `freeze` as one file; a filter without state writes none."""
        self.native_filter.save_frozen_changes(fspath(name))

    def drop_frozen(self) -> None:
        """Let go of it without saving; nothing happens if the filter is not frozen."""
        self.native_filter.drop_frozen()

    def restore(self, basename: str | PathLike[str], changes: Sequence[str | PathLike[str]] = ()) -> None:
        """Become what was saved under `basename`, and then changed as files say; on any error stay as it was.

        Files of an older format find their cells by other bits of the ids. Their counts are dropped, with a warning.

        Raises:
            FileNotFoundError: files are missing.
            ValueError: files are damaged, or the saved filter was configured differently.
        """
        if isinstance(self.native_filter, native.SlidingHashFilter):
            older = self.native_filter.restore_changed(fspath(basename), [fspath(name) for name in changes])
            if older:
                warnings.warn(
                    f"admission filter files {fspath(basename)} have format version {older}; their counts cannot be "
                    "used and were dropped: ids that have no row yet are counted from zero again",
                    stacklevel=2,
                )
        else:
            self.native_filter.restore(fspath(basename))


def create_hash_filter(
    capacity: int = HASH_FILTER_CAPACITY,
    split_num: int = HASH_FILTER_SPLIT_NUM,
    thresholds: SlotOccurrenceThresholdConfig = NO_THRESHOLDS,
    name_suffix: str = "",
    shard: HashShard = WHOLE,
) -> AdmissionFilter:
    """Return a sliding filter: it counts sightings of the last `capacity` or so different ids.

    Its counters end at 15, so larger thresholds, which no id would ever pass, are refused.
    Capacities below 300 and split numbers below 5 are raised to those. With a `shard`, it is the
    part of such a filter that one of several shards has: for ids of this shard only.

    >>> seen_once = create_hash_filter(1000, 7, SlotOccurrenceThresholdConfig(default_occurrence_threshold=1))
    >>> seen_once.should_be_filtered(torch.tensor([5, 6, 5]))
    tensor([ True,  True, False])
    """
    check_shard(shard)
    if capacity < 1 or split_num < 1:
        raise ValueError(f"hash filter: capacity and split_num must be positive, got {capacity} and {split_num}")
    return AdmissionFilter(
        native.SlidingHashFilter(capacity, split_num, *shard),
        name="MonolithHashFilter" + name_suffix,
        thresholds=thresholds,
    )


def join_filters(parts: Sequence[AdmissionFilter]) -> AdmissionFilter:
    """Return the sliding filter of all ids that these are the parts of, in the order of their shards.

    Raises:
        ValueError: A part is missing, of another kind or capacity, or has counted ids of other shards.
    """
    counts = [one.native_filter for one in parts if isinstance(one.native_filter, native.SlidingHashFilter)]
    if not counts or len(counts) < len(parts):
        raise ValueError(f"only parts of a sliding filter can be joined, got {[one.name for one in parts]}")
    return AdmissionFilter(native.join_filters(counts), name=parts[0].name, thresholds=parts[0].thresholds)


def create_probabilistic_filter(
    equal_probability: bool = False,
    thresholds: SlotOccurrenceThresholdConfig = NO_THRESHOLDS,
    name_suffix: str = "",
    seed: int = 0,
) -> AdmissionFilter:
    """Return a filter that admits by chance, with `count / threshold` per sighting.

    With `equal_probability` it is ``1 - 0.05 ** (count / threshold)``: 95 % are in after `threshold` sightings.
    It writes no files; ``native_filter.num_draws`` is all a run needs to go on exactly.
    """
    return AdmissionFilter(
        native.ProbabilisticFilter(equal_probability, seed),
        name="MonolithProbabilisticFilter" + name_suffix,
        thresholds=thresholds,
    )


def create_dummy_hash_filter(name_suffix: str = "0") -> AdmissionFilter:
    """Return a filter that admits every id at once and writes no files."""
    return AdmissionFilter(native.NoFilter(), name="DummyHashFilter" + name_suffix, thresholds=NO_THRESHOLDS)


def create_hash_filters(
    ps_num: int,
    enable_hash_filter: bool,
    thresholds: SlotOccurrenceThresholdConfig = NO_THRESHOLDS,
    filter_capacity: int = HASH_FILTER_CAPACITY,
    filter_split_num: int = HASH_FILTER_SPLIT_NUM,
    filter_equal_probability: bool = False,
    filter_type: str = FilterType.SLIDING_HASH_FILTER,
) -> list[AdmissionFilter]:
    """Return one filter per PS, with suffixes ``_0``, ``_1``, ...; a single one without a suffix if `ps_num` is 0."""
    suffixes = [f"_{i}" for i in range(ps_num)] or [""]
    if not enable_hash_filter or filter_type == FilterType.NO_FILTER:
        return [create_dummy_hash_filter(suffix) for suffix in suffixes]
    if filter_type == FilterType.SLIDING_HASH_FILTER:
        return [create_hash_filter(filter_capacity, filter_split_num, thresholds, suffix) for suffix in suffixes]
    if filter_type == FilterType.PROBABILISTIC_FILTER:
        # The index is the seed: equal draws on all PS would admit in step.
        return [
            create_probabilistic_filter(filter_equal_probability, thresholds, suffix, seed)
            for seed, suffix in enumerate(suffixes)
        ]
    raise ValueError(
        f"Invalid filter type, please investigate and retry! Got {filter_type!r}; "
        f"known are {', '.join(kind.value for kind in FilterType)}."
    )


class _InterceptGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, ids: Tensor, admission: AdmissionFilter) -> Tensor:
        ctx.ids = ids
        ctx.admission = admission
        return embeddings.view_as(embeddings)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = grads[0]
        filtered = ctx.admission.should_be_filtered(ctx.ids).to(grad.device)
        return grad.masked_fill(filtered.view(-1, *[1] * (grad.dim() - 1)), 0), None, None


def intercept_gradient(admission: AdmissionFilter, ids: Tensor, embeddings: Tensor) -> Tensor:
    """Return `embeddings` unchanged; the backward pass counts `ids` and zeroes the gradient rows of filtered ids.

    Args:
        admission: the filter.
        ids: int64 of shape [N].
        embeddings: shape [N, ...], one row per id.
    """
    if ids.dim() != 1 or embeddings.dim() < 1 or ids.shape[0] != embeddings.shape[0]:
        raise ValueError(
            f"filter {admission.name!r}: needs one embedding row per id, "
            f"got ids of shape {tuple(ids.shape)} and embeddings of shape {tuple(embeddings.shape)}"
        )
    result: Tensor = _InterceptGradient.apply(embeddings, ids, admission)  # type: ignore[no-untyped-call]
    return result
