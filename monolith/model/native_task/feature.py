"""Feature slots (tables), their slices, and the columns of ids that read them."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from monolith.embedding import (
    AdagradOptimizer,
    Compressor,
    CuckooHashTableConfig,
    Fp16Compressor,
    Fp32Compressor,
    FtrlOptimizer,
    Initializer,
    LearningRate,
    Optimizer,
    RandomUniformInitializer,
    ZerosInitializer,
)
from monolith.embedding.combiners import Combiner, FirstN, ReduceMean, ReduceSum, Sqrtn
from monolith.model.plan.feature_column import CombinerName, FeatureColumn
from monolith.model.plan.slices import SliceReader, SliceRequest
from monolith.tensors import gen_seq_mask

DEFAULT_EXPIRE_TIME = 36500
BIAS_SLICE = "bias"

_NAMES: dict[type[Combiner], CombinerName] = {
    ReduceSum: "reduce_sum",
    ReduceMean: "reduce_mean",
    Sqrtn: "sqrtn",
    FirstN: "first_n",
}


@dataclass(kw_only=True)
class FeatureSlotConfig:
    """A table: its name, admission and expiry of its rows, and the defaults of its slices."""

    name: str | None = None
    """Name of the table."""

    has_bias: bool = False
    """The first slice is one wide and has an optimizer of its own."""

    bias_initializer: Initializer = field(default_factory=ZerosInitializer)
    bias_optimizer: Optimizer = field(default_factory=lambda: FtrlOptimizer(initial_accumulator_value=1e-6, beta=1.0))
    bias_compressor: Compressor = field(default_factory=Fp32Compressor)
    bias_learning_rate_fn: LearningRate | None = None

    default_vec_initializer: Initializer = field(default_factory=RandomUniformInitializer)
    default_vec_optimizer: Optimizer = field(default_factory=lambda: AdagradOptimizer(initial_accumulator_value=1.0))
    default_vec_compressor: Compressor = field(default_factory=Fp16Compressor)
    default_vec_learning_rate_fn: LearningRate | None = None

    hashtable_config: CuckooHashTableConfig = field(default_factory=CuckooHashTableConfig)
    """Rows to make room for, and how often expired ones are removed."""

    slot_id: int | None = None
    """Number of the slot, where ids carry one."""

    occurrence_threshold: int = 0
    """An id gets a row after it was seen this often."""

    expire_time: int = DEFAULT_EXPIRE_TIME
    """Days without an update after which a row is forgotten."""

    extra_restore_names: tuple[str, ...] = ()
    """Older names of the table; a snapshot that has it under one of them is restored."""


@dataclass(frozen=True)
class FeatureSlice:
    """A stretch of a slot's rows."""

    feature_slot: "FeatureSlot"
    start: int
    end: int
    name: str
    optimizer: Optimizer
    initializer: Initializer
    compressor: Compressor
    learning_rate_fn: LearningRate | None

    @property
    def dim(self) -> int:
        """Width in floats."""
        return self.end - self.start


class _Lookups(Protocol):
    @property
    def reader(self) -> SliceReader: ...


class FeatureSlot:
    """A table under construction: slices are added one after the other."""

    def __init__(self, table: _Lookups, config: FeatureSlotConfig) -> None:
        """Begin with the bias slice, if the configuration has one."""
        if not config.name:
            raise ValueError("a feature slot needs a name: FeatureSlotConfig(name=...)")
        self.config = config
        self.lookups = table
        self._slices: list[FeatureSlice] = []
        self._columns: list[FeatureColumnV1] = []
        if config.has_bias:
            self._add(
                BIAS_SLICE,
                1,
                config.bias_initializer,
                config.bias_optimizer,
                config.bias_compressor,
                config.bias_learning_rate_fn,
            )

    @property
    def name(self) -> str:
        """Name of the table."""
        return str(self.config.name)

    @property
    def slot(self) -> int | None:
        """Number of the slot, where ids carry one."""
        return self.config.slot_id

    def add_feature_slice(
        self,
        dim_size: int,
        initializer: Initializer | None = None,
        optimizer: Optimizer | None = None,
        compressor: Compressor | None = None,
        learning_rate_fn: LearningRate | None = None,
    ) -> FeatureSlice:
        """Return a new slice behind those there are; what is not given is the slot's default."""
        config = self.config
        return self._add(
            f"slice_{len(self._slices)}",
            dim_size,
            initializer or config.default_vec_initializer,
            optimizer or config.default_vec_optimizer,
            compressor or config.default_vec_compressor,
            learning_rate_fn if learning_rate_fn is not None else config.default_vec_learning_rate_fn,
        )

    def get_bias_slice(self) -> FeatureSlice:
        """Return the bias slice; AssertionError if the slot has none."""
        if not self.config.has_bias:
            raise AssertionError(f"slot {self.name!r} has no bias; set FeatureSlotConfig.has_bias")
        return self._slices[0]

    def get_feature_columns(self) -> list["FeatureColumnV1"]:
        """Return the columns that read this slot."""
        return list(self._columns)

    @property
    def slices(self) -> tuple[FeatureSlice, ...]:
        """The slices, in the order of the row."""
        return tuple(self._slices)

    def _add(
        self,
        name: str,
        dim: int,
        initializer: Initializer,
        optimizer: Optimizer,
        compressor: Compressor,
        learning_rate_fn: LearningRate | None,
    ) -> FeatureSlice:
        if dim <= 0:
            raise ValueError(f"slot {self.name!r}: a slice is at least one wide, got {dim}")
        start = self._slices[-1].end if self._slices else 0
        made = FeatureSlice(self, start, start + dim, name, optimizer, initializer, compressor, learning_rate_fn)
        self._slices.append(made)
        return made


class FeatureColumnV1:
    """A column of ids that reads a slot's rows; several columns may share one slot."""

    def __init__(self, feature_slot: FeatureSlot, feature_name: str, combiner: Combiner | None = None) -> None:
        """Read the rows of the ids in column `feature_name`; without a combiner the rows of an event are summed."""
        self.feature_slot = feature_slot
        self.feature_name = feature_name
        self.combiner = combiner or ReduceSum()
        self._size_tensor: Tensor | None = None
        feature_slot._columns.append(self)

    @classmethod
    def reduce_sum(cls) -> Combiner:
        """Return the combiner that adds the rows of an event."""
        return ReduceSum()

    @classmethod
    def reduce_mean(cls) -> Combiner:
        """Return the combiner that averages the rows of an event."""
        return ReduceMean()

    @classmethod
    def first_n(cls, seq_length: int) -> Combiner:
        """Return the combiner that keeps the first rows as a sequence."""
        return FirstN(seq_length)

    def embedding_lookup(self, feature_slice: FeatureSlice) -> Tensor:
        """Return a slice of the combined rows: [events, dim], or [events, length, dim] of a sequence."""
        if feature_slice.feature_slot is not self.feature_slot:
            raise AssertionError("Slice must come from the dedicated feature slot.")
        request = SliceRequest(
            self._column(),
            feature_slice.name,
            feature_slice.dim,
            feature_slice.optimizer,
            feature_slice.initializer,
            feature_slice.compressor,
            feature_slice.learning_rate_fn,
        )
        return self.feature_slot.lookups.reader.read(request)

    def get_all_embeddings_concat(self) -> Tensor:
        """Return all slices side by side."""
        return torch.cat([self.embedding_lookup(one) for one in self.feature_slot.slices], dim=-1)

    def get_bias(self) -> Tensor:
        """Return the bias slice: [events, 1]."""
        return self.embedding_lookup(self.feature_slot.get_bias_slice())

    def set_size_tensor(self, row_lengths: Tensor) -> None:
        """Remember how many ids each event has; for sequence features."""
        length = self._sequence_length()
        splits = torch.cat([row_lengths.new_zeros(1), row_lengths.cumsum(0)])
        self._size_tensor = gen_seq_mask(splits, length)

    def get_size_tensor(self) -> Tensor:
        """Return a mask [events, length] of the places that hold an id."""
        self._sequence_length()
        if self._size_tensor is None:
            raise AssertionError("set_size_tensor must be called first, with the number of ids of each event")
        return self._size_tensor

    def _sequence_length(self) -> int:
        if not isinstance(self.combiner, FirstN):
            raise AssertionError("This function is only supported in a sequence feature.")
        return self.combiner.max_seq_length

    def _column(self) -> FeatureColumn:
        config = self.feature_slot.config
        name = self.feature_slot.name
        return FeatureColumn(
            name=self.feature_name,
            occurrence_threshold=config.occurrence_threshold,
            expire_time=config.expire_time,
            combiner=_NAMES[type(self.combiner)],
            max_seq_length=self.combiner.max_seq_length,
            shared_name=None if name == self.feature_name else name,
        )
