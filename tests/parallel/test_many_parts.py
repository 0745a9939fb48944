"""Batches that travel in many parts: read, sent and taken part by part."""

import pytest
import torch

from monolith.embedding import AdagradOptimizer, MultiTable, Segment, TableConfig

WIDE = {
    name: TableConfig(name=name, segments=(Segment(dim, AdagradOptimizer(learning_rate=0.1)),))
    for name, dim in (("item", 24), ("user", 40))
}
SIZES = [30_000, 20_000]


def batch(*, repeated: bool) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    if repeated:
        return torch.randint(0, 25_000, (sum(SIZES),), generator=generator)
    return torch.randperm(sum(SIZES), generator=generator)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(("num_servers", "repeated"), [(1, False), (2, True)])
def test_rows_and_gradients_find_their_places(serve, join, certificates, encrypted, num_servers, repeated):
    proof = {"tls": certificates["server"]} if encrypted else {}
    servers = [serve(tables=MultiTable(WIDE), shard=i, num_shards=num_servers, **proof) for i in range(num_servers)]
    remote = join(*servers, configs=WIDE, **{"tls": certificates["client"]} if encrypted else {})
    assert not remote["item"].lookup(torch.tensor([5])).any()  # a small frame before large ones
    local = MultiTable(WIDE)
    ids = batch(repeated=repeated)
    gradients = torch.randn(SIZES[0] * 24 + SIZES[1] * 40, generator=torch.Generator().manual_seed(8))
    seen = []
    for tables in (local, remote):
        plan = tables.plan(ids, SIZES)
        plan.apply_gradients(gradients)
        seen.append(plan.lookup())
    assert torch.equal(*seen)


def test_half_precision_is_off_by_a_thousandth(serve, join):
    server = serve(tables=MultiTable(WIDE))
    exact, half = join(server, configs=WIDE), join(server, configs=WIDE, half=True)
    ids = batch(repeated=False)
    gradients = torch.randn(SIZES[0] * 24 + SIZES[1] * 40, generator=torch.Generator().manual_seed(9))
    plan = half.plan(ids, SIZES)
    plan.apply_gradients(gradients)
    rows = exact.plan(ids, SIZES).lookup()
    local = MultiTable(WIDE)
    local.plan(ids, SIZES).apply_gradients(gradients)
    # A half has eleven binary digits: gradients lose half a unit of the last, and rows do on their way back.
    assert torch.allclose(rows, local.plan(ids, SIZES).lookup(), rtol=1e-3, atol=1e-6)
    assert torch.equal(plan.lookup(), rows.half().float())
