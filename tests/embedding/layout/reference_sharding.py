"""Sharding written out slowly, from its rules, and random configs and batches to compare with."""

from itertools import accumulate

import numpy as np

from monolith.features.layouts import FeatMeta, LayoutMeta, TableMeta, make_feature_configs
from monolith.tensors.ragged import Ragged

SHARED = 0x80000000


def reference_shard(configs, features, ps_num, unique, batch_size):
    """Return the ids, row splits and floats of each block, and the three offset lists."""
    names = sorted(configs.feature_configs)
    tables = sorted({configs.feature_configs[name].table for name in names})
    blocks = {f"{table}:{ps}": [] for table in tables for ps in range(ps_num)}
    splits = {block: [0] for block in blocks}
    floats = dict.fromkeys(blocks, 0)
    fid_offset, feature_offset, nfl_offset = [], [0], []
    for name in names:
        config = configs.feature_configs[name]
        dim, base, mine = sum(config.slice_dims), dict(floats), {}
        rows = features.get(name, [[]])
        shared = name not in features or len(rows) != batch_size
        nfl_offset.append((len(feature_offset) - 1) | (SHARED if shared else 0))
        for row in rows:
            for fid in row:
                ps = (fid % 2**64) % ps_num
                block = f"{config.table}:{ps}"
                own = mine.setdefault(block, [])
                if fid not in own or not unique:
                    own.append(fid)
                place = own.index(fid) if unique else len(own) - 1
                number = tables.index(config.table) * ps_num + ps
                fid_offset.append((number << 32) | (base[block] + place * dim))
            feature_offset.append(len(fid_offset))
        for ps in range(ps_num):
            block = f"{config.table}:{ps}"
            blocks[block] += mine.get(block, [])
            splits[block].append(len(blocks[block]))
            floats[block] += len(mine.get(block, [])) * dim
    nfl_offset.append(len(feature_offset))
    return blocks, splits, list(floats.values()), fid_offset, feature_offset, nfl_offset


def random_configs(seed, num_features=6, num_tables=2):
    """Return the metas of random features and the configs of layouts of every kind made of them."""
    rng = np.random.default_rng(seed)
    tables = [
        TableMeta(name=f"table_{t}", slices=(("bias", 1), ("vec", int(rng.integers(1, 19))), ("same", 5)))
        for t in rng.permutation(num_tables)
    ]
    metas = {}
    for f in rng.permutation(num_features):
        pooling = str(rng.choice(["sum", "mean", "first_n"]))
        metas[f"feature_{f}"] = FeatMeta(
            slot=int(f) + 1,
            table=tables[int(rng.integers(num_tables))],
            shared=bool(rng.random() < 0.3),
            pooling=pooling,
            max_sequence_length=3 if pooling == "first_n" else 0,
        )
    metas["a_plain_one"] = FeatMeta(slot=100, table=tables[0])
    plain = [name for name, meta in metas.items() if meta.pooling != "first_n"]
    layouts = {
        "none": LayoutMeta(joining="NONE", slices=tuple((name, "vec") for name in metas)),
        "concat": LayoutMeta(joining="CONCAT", slices=tuple((n, s) for n in plain for s in ("vec", "bias"))),
        "stack": LayoutMeta(joining="STACK", slices=tuple((name, "same") for name in plain)),
        "addn": LayoutMeta(joining="ADDN", slices=tuple((name, "same") for name in reversed(plain))),
    }
    return metas, layouts, make_feature_configs(metas, layouts)


def random_batch(metas, seed, batch_size=7, num_ids=12):
    """Return lists of ids by feature, some negative (their unsigned value counts), and the same as ragged columns."""
    rng = np.random.default_rng(seed)
    lists = {}
    for name, meta in metas.items():
        rows = 1 if meta.shared else batch_size
        lengths = rng.integers(0, 5, rows)
        ids = rng.integers(-num_ids, num_ids, lengths.sum()).tolist()
        ends = list(accumulate(lengths.tolist(), initial=0))
        lists[name] = [ids[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]
    return lists, {name: Ragged.from_lists(rows) for name, rows in lists.items()}
