"""The ids of a batch by table and parameter server, and where the rows of every occurrence lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from monolith.data.batch import Column
from monolith.embedding.layout.plan import LayoutPlan
from monolith.tensors.ragged import Ragged

"""Ids of one feature: ragged rows, [b] with one id per row, or [b, n] with n."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ShardedFids:
    """Which ids to look up in which table of which server, and how the samples of the batch refer to their rows.

    A block is what one server has of one table, named "table:ps"; blocks are ordered by table, then server. The rows
    that are looked up lie in the order of the block's ids, end to end.
    """

    shards: dict[str, Tensor]
    """Int64 ids of each block: those of the table's first feature, then of its second, and so on by name."""

    shards_row_split: dict[str, Tensor]
    """Int64, per block: where the ids of each feature of the table begin, and the end."""

    emb_size: Tensor
    """Int32: floats of each block."""

    fid_offset: Tensor
    """Uint64, per occurrence, feature by feature and sample by sample: (block << 32) | first float in the block."""

    feature_offset: Tensor
    """Int32: where each (feature, sample) begins in `fid_offset`, and the end."""

    nfl_offset: Tensor
    """Uint32: where each feature begins in `feature_offset` (the top bit set if one row stands for the whole batch),
    and the size of `feature_offset`."""

    num_samples: int
    """Samples of the batch."""

    ps_num: int

    @property
    def batch_size(self) -> Tensor:
        """Int32 vector of one: samples of the batch."""
        return _one(self.num_samples)

    @property
    def nfl_size(self) -> Tensor:
        """Int32 vector of one: size of `nfl_offset`."""
        return _one(len(self.nfl_offset))

    @property
    def feature_size(self) -> Tensor:
        """Int32 vector of one: size of `feature_offset`."""
        return _one(len(self.feature_offset))

    @property
    def fid_size(self) -> Tensor:
        """Int32 vector of one: size of `fid_offset`."""
        return _one(len(self.fid_offset))

    @property
    def shards_row_split_size(self) -> dict[str, Tensor]:
        """Per block, an int32 vector of one: size of its row split."""
        return {name: _one(len(splits)) for name, splits in self.shards_row_split.items()}

    @property
    def fid_list_emb_row_length(self) -> Tensor:
        """Int32 [ps * tables + table]: floats of each block, server by server."""
        return self.emb_size.view(-1, self.ps_num).t().reshape(-1)

    @property
    def fid_list_table_row_length(self) -> Tensor:
        """Int32 [ps * tables + table]: ids of each block, server by server."""
        sizes = torch.tensor([len(fids) for fids in self.shards.values()], dtype=torch.int32)
        return sizes.view(-1, self.ps_num).t().reshape(-1)

    @property
    def fid_list_shard_row_length(self) -> Tensor:
        """Int32 [ps]: ids of each server."""
        return self.fid_list_table_row_length.view(self.ps_num, -1).sum(1, dtype=torch.int32)

    def as_tuple(self) -> tuple[Any, ...]:
        """Return everything in the order of the original function.

        That is shards, fid_offset, feature_offset, nfl_offset, batch_size, nfl_size, feature_size, fid_size,
        emb_size, shards_row_split, shards_row_split_size, fid_list_emb_row_length, fid_list_table_row_length,
        fid_list_shard_row_length.
        """
        return (
            self.shards,
            self.fid_offset,
            self.feature_offset,
            self.nfl_offset,
            self.batch_size,
            self.nfl_size,
            self.feature_size,
            self.fid_size,
            self.emb_size,
            self.shards_row_split,
            self.shards_row_split_size,
            self.fid_list_emb_row_length,
            self.fid_list_table_row_length,
            self.fid_list_shard_row_length,
        )


def shard_columns(
    plan: LayoutPlan,
    features: Mapping[str, Column],
    ps_num: int,
    *,
    unique: bool,
    batch_size: int | None = None,
    allow_shared: bool = True,
) -> ShardedFids:
    """Return the ids of the columns by table and server.

    Args:
        plan: The features, and the tables of their rows.
        features: Ids by the name of the feature. A feature that is missing has no ids.
        ps_num: Number of servers: an id goes to server ``id % ps_num``, taken without sign.
        unique: Whether an id that a feature has several times is looked up once.
        batch_size: Samples; the most rows that a column has if None.
        allow_shared: Whether a column of one row stands for a batch of many.
    """
    unknown = sorted(set(features) - set(plan.features))
    if unknown:
        raise ValueError(f"there is no config of the features {unknown}; pass only those of {list(plan.features)}")
    if ps_num < 1:
        raise ValueError(f"ps_num must be at least 1, got {ps_num}")
    columns = {name: _ragged(name, column) for name, column in features.items()}
    if batch_size is None:
        batch_size = max((column.num_rows for column in columns.values()), default=0)
    shared = _shared_features(plan, columns, batch_size, allow_shared)
    ordered = [
        columns[name] if name in columns else _absent(1 if is_shared else batch_size)
        for name, is_shared in zip(plan.features, shared, strict=True)
    ]
    fids, block_sizes, row_splits, emb_size, fid_offset, feature_offset, nfl_offset = plan.native_plan.shard(
        [column.values for column in ordered],
        [column.row_splits for column in ordered],
        shared,
        ps_num,
        batch_size,
        unique,
    )
    names = plan.block_names(ps_num)
    split_sizes = [plan.table_of.count(table) + 1 for table in range(len(plan.tables)) for _ in range(ps_num)]
    return ShardedFids(
        shards=dict(zip(names, torch.split(fids, block_sizes.tolist()), strict=True)) if names else {},
        shards_row_split=dict(zip(names, torch.split(row_splits, split_sizes), strict=True)) if names else {},
        emb_size=emb_size,
        fid_offset=fid_offset,
        feature_offset=feature_offset,
        nfl_offset=nfl_offset,
        num_samples=batch_size,
        ps_num=ps_num,
    )


def _shared_features(
    plan: LayoutPlan, columns: Mapping[str, Ragged], batch_size: int, allow_shared: bool
) -> list[bool]:
    """Return which features have one row for the whole batch: columns of one row, and those that are not there."""
    for name, column in columns.items():
        if column.num_rows != batch_size and not (allow_shared and column.num_rows == 1):
            either = " or 1, a row for the whole batch" if allow_shared else ""
            raise ValueError(f"column {name!r} has {column.num_rows} rows, expected {batch_size}{either}")
    return [allow_shared and (name not in columns or columns[name].num_rows != batch_size) for name in plan.features]


def _ragged(name: str, column: Column) -> Ragged:
    if isinstance(column, Tensor):
        if column.dim() not in (1, 2):
            raise TypeError(f"column {name!r} must be ragged, [b] or [b, n], got shape {tuple(column.shape)}")
        width = 1 if column.dim() == 1 else column.shape[1]
        column = Ragged.unchecked(column.reshape(-1), torch.arange(column.shape[0] + 1) * width)
    values = column.values
    if values.dtype != torch.int64 or values.dim() != 1 or values.device.type != "cpu":
        raise TypeError(
            f"column {name!r} must hold int64 ids on the CPU, one per value, got {values.dtype} of shape "
            f"{tuple(values.shape)} on {values.device}"
        )
    if values.is_contiguous() and column.row_splits.is_contiguous():
        return column
    return Ragged.unchecked(values.contiguous(), column.row_splits.contiguous())


def _absent(num_rows: int) -> Ragged:
    return Ragged.unchecked(torch.empty(0, dtype=torch.int64), torch.zeros(num_rows + 1, dtype=torch.int64))


def _one(number: int) -> Tensor:
    return torch.tensor([number], dtype=torch.int32)
