"""Layouts: how the slices of looked-up rows are put together into the tensors that a model takes.

A row of a table is made of slices; a layout names slices of features and says how they are joined. The two functions
here write both sides of a request from a plain description: the ids of a batch (`ExampleBatch`), and the way from
their rows to tensors (`FeatureConfigs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from monolith.features.fid import as_unsigned, make_fid_v1, make_fid_v2
from monolith.protos.example_pb2 import (
    FIRSTN,
    INDIVIDUAL,
    MEAN,
    SHARED,
    SUM,
    ExampleBatch,
    FeatureConfig,
    FeatureConfigs,
    OutConfig,
    PoolingType,
    SliceConfig,
    TensorShape,
)

SlicePooling: TypeAlias = Literal["sum", "mean", "first_n"]
Joining: TypeAlias = Literal["CONCAT", "STACK", "ADDN", "NONE"]

_POOLING_TYPES: dict[SlicePooling, PoolingType] = {"sum": SUM, "mean": MEAN, "first_n": FIRSTN}

BATCH = -1
"""Stands for the size of the batch in a shape."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableMeta:
    """A table, and the slices of its rows."""

    name: str

    slices: tuple[tuple[str, int], ...]
    """Name and width of each slice, in the order of the row."""

    def __post_init__(self) -> None:
        """Reject rows that cannot be."""
        names = [name for name, _ in self.slices]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"table {self.name!r}: slices must have different names, got {names}")
        if any(width <= 0 for _, width in self.slices):
            raise ValueError(f"table {self.name!r}: widths of slices must be positive, got {self.slices}")

    def range_of(self, slice_name: str) -> tuple[int, int] | None:
        """Return where a slice begins and ends in the row; None if there is none of this name.

        >>> TableMeta(name="t", slices=(("bias", 1), ("vec", 8))).range_of("vec")
        (1, 9)
        """
        start = 0
        for name, width in self.slices:
            if name == slice_name:
                return start, start + width
            start += width
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatMeta:
    """A feature: its slot, its table, and how the rows of its ids become one."""

    slot: int

    table: TableMeta

    fid_version: Literal[1, 2] = 2

    shared: bool = False
    """The whole batch has the same ids: a feature of the user in a request for many items."""

    pooling: SlicePooling = "sum"

    max_sequence_length: int = 0
    """With first_n: ids that are kept."""

    def __post_init__(self) -> None:
        """Reject sequences without a length, and lengths without a sequence."""
        if (self.pooling == "first_n") != (self.max_sequence_length > 0):
            raise ValueError(
                f"slot {self.slot}: first_n goes with a positive max_sequence_length, "
                f"got {self.pooling} and {self.max_sequence_length}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutMeta:
    """A layout: which slices of which features, and how they are joined."""

    joining: Joining

    slices: tuple[tuple[str, str], ...]
    """Feature and slice, in the order of the output."""


def make_example_batch(
    features: Mapping[str, FeatMeta], batch_size: int = 10, num_ids_per_row: int = 2
) -> ExampleBatch:
    """Return a batch with ids for every feature: one list per row, or a single one for a shared feature.

    Ids are made of the feature's slot and numbers that count up over the rows, so no two of a feature are equal.
    """
    if batch_size < 1 or num_ids_per_row < 0:
        raise ValueError(f"a batch needs rows with ids, got batch_size {batch_size} and {num_ids_per_row} ids per row")
    batch = ExampleBatch(batch_size=batch_size)
    for name, meta in features.items():
        column = batch.named_feature_list.add(name=name, type=SHARED if meta.shared else INDIVIDUAL)
        make_fid = make_fid_v1 if meta.fid_version == 1 else make_fid_v2
        for row in range(1 if meta.shared else batch_size):
            numbers = range(row * num_ids_per_row, (row + 1) * num_ids_per_row)
            fids = [as_unsigned(make_fid(meta.slot, number)) for number in numbers]
            feature = column.feature.add()
            # Set even if it is empty: a list without ids is not the same as no list.
            (feature.fid_v1_list if meta.fid_version == 1 else feature.fid_v2_list).SetInParent()
            (feature.fid_v1_list if meta.fid_version == 1 else feature.fid_v2_list).value.extend(fids)
    return batch


def standard_layouts(features: Mapping[str, FeatMeta]) -> dict[str, LayoutMeta]:
    """Return the layouts of a factorisation model, each made of the slices that the tables of the features have.

    | layout | joined by | slices |
    |---|---|---|
    | bias, vec | CONCAT | those of the same name, of all features that are no sequence |
    | uffm, iffm | NONE | those of the same name, of all features that are no sequence |
    | seq | NONE | "vec" of the sequences |
    | user_only | STACK | "vec" of the shared features that are no sequence |
    """
    plain = {name: meta for name, meta in features.items() if meta.pooling != "first_n"}
    sequences = {name: meta for name, meta in features.items() if meta.pooling == "first_n"}
    users = {name: meta for name, meta in plain.items() if meta.shared}
    layouts = {
        "bias": LayoutMeta(joining="CONCAT", slices=_slices_named("bias", plain)),
        "vec": LayoutMeta(joining="CONCAT", slices=_slices_named("vec", plain)),
        "uffm": LayoutMeta(joining="NONE", slices=_slices_named("uffm", plain)),
        "iffm": LayoutMeta(joining="NONE", slices=_slices_named("iffm", plain)),
        "seq": LayoutMeta(joining="NONE", slices=_slices_named("vec", sequences)),
        "user_only": LayoutMeta(joining="STACK", slices=_slices_named("vec", users)),
    }
    return {name: layout for name, layout in layouts.items() if layout.slices}


def make_feature_configs(
    features: Mapping[str, FeatMeta], layouts: Mapping[str, LayoutMeta] | None = None
) -> FeatureConfigs:
    """Return tables, widths and pooling of the features, and ranges and shapes of the layouts.

    Args:
        features: The features by name.
        layouts: The layouts by name; `standard_layouts(features)` if None.

    Raises:
        ValueError: A layout names what is not there, or joins what does not fit together.
    """
    configs = FeatureConfigs()
    for name, meta in features.items():
        configs.feature_configs[name].CopyFrom(
            FeatureConfig(
                table=meta.table.name,
                pooling_type=_POOLING_TYPES[meta.pooling],
                slice_dims=[width for _, width in meta.table.slices],
                max_sequence_length=meta.max_sequence_length,
            )
        )
    for name, layout in (standard_layouts(features) if layouts is None else layouts).items():
        configs.out_configs[name].CopyFrom(_out_config(name, layout, features))
    return configs


def _slices_named(slice_name: str, features: Mapping[str, FeatMeta]) -> tuple[tuple[str, str], ...]:
    return tuple((name, slice_name) for name, meta in features.items() if meta.table.range_of(slice_name) is not None)


def _out_config(layout_name: str, layout: LayoutMeta, features: Mapping[str, FeatMeta]) -> OutConfig:
    out = OutConfig(out_type=layout.joining)
    shapes: list[tuple[int, ...]] = []
    for feature, slice_name in layout.slices:
        meta = features.get(feature)
        span = None if meta is None else meta.table.range_of(slice_name)
        if meta is None or span is None:
            raise ValueError(f"layout {layout_name!r}: there is no slice {slice_name!r} of feature {feature!r}")
        start, end = span
        out.slice_configs.append(SliceConfig(feature_name=feature, start=start, end=end))
        length = (meta.max_sequence_length,) if meta.pooling == "first_n" else ()
        shapes.append((BATCH, *length, end - start))
    out.shape.extend(TensorShape(dims=dims) for dims in _joined(layout_name, layout.joining, shapes))
    return out


def _joined(name: str, joining: Joining, shapes: list[tuple[int, ...]]) -> Iterable[tuple[int, ...]]:
    """Return the shapes of the outputs of a layout."""
    if not shapes:
        raise ValueError(f"layout {name!r} has no slices")
    if joining == "NONE":
        return shapes
    if any(len(shape) > 2 for shape in shapes):
        raise ValueError(f"layout {name!r}: sequences (first_n) cannot be joined by {joining}; use NONE")
    widths = [shape[-1] for shape in shapes]
    if joining == "CONCAT":
        return [(BATCH, sum(widths))]
    if len(set(widths)) > 1:
        raise ValueError(f"layout {name!r}: {joining} needs slices of one width, got {widths}")
    return [(BATCH, len(widths), widths[0])] if joining == "STACK" else [(BATCH, widths[0])]
