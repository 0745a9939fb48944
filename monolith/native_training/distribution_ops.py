"""The two ops of the fused layout path under the names and argument orders of the original.

Records are parsed elsewhere: where the original takes serialized records, these take the parsed columns. Versions 3
and 5 are the same computation; version 4 has all ids, and all rows, in one tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from monolith.data.batch import Column
from monolith.embedding.layout.fused_layout import layout_tensors
from monolith.embedding.layout.plan import LayoutPlan
from monolith.embedding.layout.sharded_fids import ShardedFids, shard_columns
from monolith.protos.example_pb2 import FeatureConfigs

_BATCH_TYPES = ("example_batch", "examplebatch")
_INPUT_TYPES = ("example", "instance", *_BATCH_TYPES)
_VERSIONS = (3, 4, 5)


def sharding_sparse_fids(
    tensor: Mapping[str, Column],
    ps_num: int,
    feature_cfgs: FeatureConfigs | bytes,
    unique: bool,
    input_type: str,
    parallel_flag: int = 0,
    fid_list_ret_list: bool = False,
    version: int = 5,
) -> tuple[Any, ...]:
    """Return the ids by table and server and the index of their rows, in the order of `ShardedFids.as_tuple`.

    Args:
        tensor: Ids by the name of the feature.
        ps_num: Number of servers; 0 is taken as 1.
        feature_cfgs: The configs, or their bytes.
        unique: Whether an id that a feature has several times is looked up once.
        input_type: "example_batch": a single row stands for the whole batch, and so does a feature that is missing.
            "example" or "instance": every column has as many rows as the batch.
        parallel_flag: Taken and ignored: threads are used where there is enough to do.
        fid_list_ret_list: Whether ids, row splits and their sizes are lists in the order of the blocks, not dicts
            by "table:ps".
        version: 3 or 5; with 4, ids and row splits are one tensor each, in order of server, table and feature.
    """
    del parallel_flag
    _require_one_of("input_type", input_type, _INPUT_TYPES)
    _require_one_of("version", version, _VERSIONS)
    sharded = shard_columns(
        _plan_of(feature_cfgs), tensor, ps_num or 1, unique=unique, allow_shared=input_type in _BATCH_TYPES
    )
    fields = list(sharded.as_tuple())
    if version == 4:
        fields[0] = _by_server(sharded.shards, sharded)
        fields[9] = _by_server(sharded.shards_row_split, sharded)
        fields[10] = None
    elif fid_list_ret_list:
        for place in (0, 9, 10):
            fields[place] = list(fields[place].values())
    return tuple(fields)


def fused_embedding_to_layout(
    embeddings_list: Sequence[Tensor] | Tensor,
    fid_list_row_split: Sequence[Tensor] | None,
    fid_offset: Tensor,
    feature_offset: Tensor,
    nfl_offset: Tensor,
    batch_size: Tensor | int,
    variant_type: str,
    feature_cfgs: FeatureConfigs | bytes,
    ps_num: int,
    fid_list_emb_row_lenth: Tensor | None = None,
    nfl_size: Tensor | None = None,
    feature_size: Tensor | None = None,
    fid_size: Tensor | None = None,
    emb_size: Tensor | None = None,
    parallel_flag: int = 0,
    version: int = 3,
) -> list[Tensor]:
    """Return the tensors of all layouts, by name of the layout and then as configured; differentiable.

    Args:
        embeddings_list: The rows of each block, flat, in the order of the blocks; with version 4 those of all blocks
            in one tensor, in order of server, table and feature.
        fid_list_row_split: Where the features of each block begin; if given, the sizes of the blocks are checked.
        fid_offset: As `sharding_sparse_fids` returned it; so are the next two.
        feature_offset: Where each (feature, sample) begins.
        nfl_offset: Where each feature begins.
        batch_size: Samples, as a number or a tensor of one.
        variant_type: "example", "instance", "example_batch" or "examplebatch"; all are laid out alike.
        feature_cfgs: The configs, or their bytes.
        ps_num: Number of servers; 0 is taken as 1.
        fid_list_emb_row_lenth: For version 4: floats of each block, server by server.
        nfl_size: One number per request; this takes one request. So are the next two.
        feature_size: Size of `feature_offset`.
        fid_size: Size of `fid_offset`.
        emb_size: Floats of each block; if given, the sizes of the blocks are checked.
        parallel_flag: Taken and ignored: threads are used where there is enough to do.
        version: 3, 4 or 5.
    """
    del parallel_flag
    _require_one_of("variant_type", variant_type, _INPUT_TYPES)
    _require_one_of("version", version, _VERSIONS)
    for name, size, array in (
        ("nfl_size", nfl_size, nfl_offset),
        ("feature_size", feature_size, feature_offset),
        ("fid_size", fid_size, fid_offset),
    ):
        if size is not None and size.tolist() != [len(array)]:
            raise ValueError(
                f"{name} must be one number, {len(array)}, got {size.tolist()}; requests are taken one at a time"
            )
    plan, servers = _plan_of(feature_cfgs), ps_num or 1
    if isinstance(embeddings_list, Tensor):
        if version != 4 or fid_list_emb_row_lenth is None:
            raise ValueError("embeddings in one tensor need version=4 and fid_list_emb_row_lenth")
        embeddings_list = _cut_by_block(embeddings_list, fid_list_emb_row_lenth, len(plan.tables), servers)
    if len(embeddings_list) != len(plan.tables) * servers:
        raise ValueError(
            f"embeddings_list must have one tensor per table and server, {len(plan.tables)} times {servers}, "
            f"got {len(embeddings_list)}"
        )
    _check_sizes(plan, embeddings_list, servers, fid_list_row_split if version != 4 else None, emb_size)
    return layout_tensors(plan, embeddings_list, fid_offset, feature_offset, nfl_offset, int(batch_size))


def _by_server(blocks: Mapping[str, Tensor], sharded: ShardedFids) -> Tensor:
    listed = list(blocks.values())
    ordered = [block for ps in range(sharded.ps_num) for block in listed[ps :: sharded.ps_num]]
    return torch.cat(ordered) if ordered else torch.empty(0, dtype=torch.int64)


def _cut_by_block(embeddings: Tensor, sizes: Tensor, num_tables: int, ps_num: int) -> list[Tensor]:
    """Return the blocks in order of table and server; they lie in order of server and table."""
    listed = sizes.tolist()
    if len(listed) != num_tables * ps_num or sum(listed) != embeddings.numel() or min(listed, default=0) < 0:
        raise ValueError(
            f"fid_list_emb_row_lenth must be {num_tables * ps_num} sizes that add up to the {embeddings.numel()} "
            f"floats of the embeddings, got {listed}"
        )
    blocks = torch.split(embeddings.reshape(-1), listed) if listed else ()
    return [block for table in range(num_tables) for block in blocks[table::num_tables]]


def _check_sizes(
    plan: LayoutPlan,
    blocks: Sequence[Tensor],
    ps_num: int,
    row_splits: Sequence[Tensor] | None,
    emb_size: Tensor | None,
) -> None:
    """Raise a ValueError unless each block has the floats that the sharding counted."""
    expected = None if emb_size is None else emb_size.tolist()
    if row_splits is not None:
        dims = [
            [dim for dim, owner in zip(plan.row_dims, plan.table_of, strict=True) if owner == table]
            for table in range(len(plan.tables))
        ]
        expected = [
            sum(n * dim for n, dim in zip(splits.diff().tolist(), dims[block // ps_num], strict=True))
            for block, splits in enumerate(row_splits)
        ]
    sizes = [block.numel() for block in blocks]
    if expected is not None and sizes != expected:
        raise ValueError(f"the ids of the blocks have {expected} floats, but embeddings_list has {sizes}")


def _plan_of(configs: FeatureConfigs | bytes) -> LayoutPlan:
    serialized = configs if isinstance(configs, bytes) else configs.SerializeToString(deterministic=True)
    return _plan_of_bytes(serialized)


@lru_cache(maxsize=16)
def _plan_of_bytes(serialized: bytes) -> LayoutPlan:
    return LayoutPlan.from_configs(FeatureConfigs.FromString(serialized))


def _require_one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {list(allowed)}, got {value!r}")
