"""Layouts in one call against pooling, cat, stack and add of torch: values and gradients."""

from functools import reduce

import pytest
import torch

from monolith._core import native
from monolith.embedding import Segment, SgdOptimizer, Table, TableConfig
from monolith.embedding.combiners import first_n, pool
from monolith.embedding.layout import FusedLayout
from monolith.features.layouts import FeatMeta, LayoutMeta, TableMeta, make_feature_configs
from monolith.native_training.distribution_ops import fused_embedding_to_layout, sharding_sparse_fids
from monolith.tensors.ragged import Ragged
from tests.embedding.layout.reference_sharding import random_batch, random_configs

BATCH = 7


def weights_of(metas, seed):
    """Return for each feature a matrix whose row i is that of id i (Python's indexing takes the negative ones)."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(24, sum(width for _, width in meta.table.slices), generator=generator).requires_grad_()
        for name, meta in metas.items()
    }


def block_rows(configs, sharded, weights):
    """Look up what the sharding asks for: the rows of each feature of each block, flat."""
    blocks = {}
    for name, fids in sharded.shards.items():
        features = [
            f for f in sorted(configs.feature_configs) if configs.feature_configs[f].table == name.split(":")[0]
        ]
        parts = fids.split(sharded.shards_row_split[name].diff().tolist())
        rows = [weights[f][part].reshape(-1) for f, part in zip(features, parts, strict=True)]
        blocks[name] = torch.cat(rows)
    return blocks


def plain_layouts(metas, layouts, columns, weights):
    """Return the layouts, each slice pooled alone and joined by torch."""
    outs = {}
    for name, layout in layouts.items():
        pooled = []
        for feature, slice_name in layout.slices:
            meta, column = metas[feature], columns[feature]
            start, end = meta.table.range_of(slice_name)
            rows = weights[feature][column.values][:, start:end]
            if meta.pooling == "first_n":
                one = first_n(rows, column.row_splits, meta.max_sequence_length)
            else:
                one = pool(rows, column.row_splits, meta.pooling)
            pooled.append(one.expand(BATCH, *one.shape[1:]))
        if layout.joining == "NONE":
            outs[name] = pooled
        elif layout.joining == "ADDN":
            outs[name] = [reduce(torch.add, pooled)]
        else:
            outs[name] = [{"CONCAT": torch.cat, "STACK": torch.stack}[layout.joining](pooled, 1)]
    return outs


def gradients(outs, weights, seed=0):
    """Return the gradients of the weights under a loss that weighs every output element differently."""
    generator = torch.Generator().manual_seed(seed)
    tensors = [tensor for name in sorted(outs) for tensor in outs[name]]
    loss = sum((tensor * torch.randn(tensor.shape, generator=generator)).sum() for tensor in tensors)
    return torch.autograd.grad(loss, list(weights.values()), materialize_grads=True)


@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("ps_num", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_layouts_and_gradients_match_torch(seed, ps_num, unique):
    metas, layouts, configs = random_configs(seed)
    _, columns = random_batch(metas, seed)
    weights = weights_of(metas, seed)
    expected = plain_layouts(metas, layouts, columns, weights)
    fused = FusedLayout(configs)
    sharded = fused.shard(columns, ps_num, unique)
    got = fused.forward(block_rows(configs, sharded, weights), sharded)
    assert list(got) == sorted(layouts)
    for name in layouts:
        assert len(got[name]) == len(expected[name])
        for one, other in zip(got[name], expected[name], strict=True):
            assert torch.equal(one, other), name
    for one, other in zip(gradients(got, weights), gradients(expected, weights), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_layout_without_a_loss_has_no_part_in_the_gradient():
    metas, layouts, configs = random_configs(3)
    _, columns = random_batch(metas, 3)
    weights = weights_of(metas, 3)
    fused = FusedLayout(configs)
    sharded = fused.shard(columns)
    got = fused.forward(block_rows(configs, sharded, weights), sharded)
    expected = plain_layouts(metas, layouts, columns, weights)
    one, other = gradients({"addn": got["addn"]}, weights), gradients({"addn": expected["addn"]}, weights)
    for mine, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


def test_a_missing_feature_gives_zeros():
    metas, _, configs = random_configs(0)
    _, columns = random_batch(metas, 0)
    del columns["a_plain_one"]
    fused = FusedLayout(configs)
    sharded = fused.shard(columns)
    got = fused.forward(block_rows(configs, sharded, weights_of(metas, 0)), sharded)
    place = list(metas).index("a_plain_one")
    assert not got["none"][place].any()
    assert got["none"][place].shape[0] == BATCH


def test_rows_of_a_table():
    table = Table(TableConfig(name="t", segments=(Segment(3, SgdOptimizer()),)))
    table.assign(torch.tensor([5, 6]), torch.tensor([[1.0, 2, 3], [4, 5, 6]]))
    meta = FeatMeta(slot=1, table=TableMeta(name="t", slices=(("bias", 1), ("vec", 2))), pooling="mean")
    layouts = {"vec": LayoutMeta(joining="CONCAT", slices=(("f", "vec"), ("f", "bias")))}
    fused = FusedLayout(make_feature_configs({"f": meta}, layouts))
    sharded = fused.shard({"f": Ragged.from_lists([[5, 6, 5, 6], [6], []])})
    got = fused.forward({"t:0": table.lookup(sharded.shards["t:0"])}, sharded)
    assert got["vec"][0].tolist() == [[3.5, 4.5, 2.5], [5, 6, 4], [0, 0, 0]]


def test_the_number_of_threads_does_not_matter():
    metas = {
        name: FeatMeta(slot=slot, table=TableMeta(name="t", slices=(("vec", 16),)), pooling="mean")
        for slot, name in enumerate("abc", 1)
    }
    layouts = {"vec": LayoutMeta(joining="CONCAT", slices=tuple((name, "vec") for name in metas))}
    fused = FusedLayout(make_feature_configs(metas, layouts))
    generator = torch.Generator().manual_seed(0)
    columns = {name: torch.randint(0, 500, (4096, 3), generator=generator) for name in metas}
    columns["b"] = columns["b"][:, :1]
    results = []
    for threads in (1, 2, 4):
        native.set_num_threads(threads)
        try:
            sharded = fused.shard(columns, ps_num=2)
            generator = torch.Generator().manual_seed(1)
            blocks = {
                name: torch.randn(len(fids) * 16, generator=generator).requires_grad_()
                for name, fids in sharded.shards.items()
            }
            out = fused.forward(blocks, sharded)["vec"][0]
            results.append((out, *torch.autograd.grad(out.square().sum(), list(blocks.values()))))
        finally:
            native.set_num_threads(0)
    for other in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(results[0], other, strict=True))


@pytest.mark.parametrize("version", [3, 4, 5])
def test_original_functions_give_the_same(version):
    metas, _, configs = random_configs(2, num_tables=3)
    _, columns = random_batch(metas, 2)
    fused = FusedLayout(configs)
    sharded = fused.shard(columns, ps_num=2)
    blocks = block_rows(configs, sharded, weights_of(metas, 2))
    expected = [tensor for tensors in fused.forward(blocks, sharded).values() for tensor in tensors]
    fields = sharding_sparse_fids(columns, 2, configs, True, "example_batch", version=version)
    names = list(sharded.shards)
    by_server = torch.cat([blocks[name] for ps in range(2) for name in names[ps::2]])
    got = fused_embedding_to_layout(
        by_server if version == 4 else [blocks[name] for name in names],
        None if version == 4 else list(fields[9].values()),
        *fields[1:5],
        variant_type="example_batch",
        feature_cfgs=configs.SerializeToString(),
        ps_num=2,
        fid_list_emb_row_lenth=fields[11],
        nfl_size=fields[5],
        feature_size=fields[6],
        fid_size=fields[7],
        emb_size=fields[8],
        version=version,
    )
    assert len(got) == len(expected)
    assert all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))


def test_an_empty_batch_gives_empty_tensors():
    metas, _, configs = random_configs(1)
    fused = FusedLayout(configs)
    sharded = fused.shard({name: Ragged.from_lists([]) for name in metas})
    got = fused.forward(block_rows(configs, sharded, weights_of(metas, 1)), sharded)
    assert {tensor.shape[0] for tensors in got.values() for tensor in tensors} == {0}
