"""Configs, embeddings and indices that cannot be laid out are refused, by name."""

import pytest
import torch

from monolith.embedding.layout import FusedLayout
from monolith.native_training.distribution_ops import fused_embedding_to_layout
from monolith.protos.example_pb2 import FeatureConfig, FeatureConfigs, OutConfig, SliceConfig, TensorShape


def configs(out_type="CONCAT", slices=(("a", 0, 3),), shapes=((-1, 3),), **feature):
    made = FeatureConfigs(
        feature_configs={"a": FeatureConfig(**{"table": "t", "slice_dims": [1, 2], **feature})},
        out_configs={"x": OutConfig(out_type=out_type, shape=[TensorShape(dims=dims) for dims in shapes])},
    )
    for name, start, end in slices:
        made.out_configs["x"].slice_configs.add(feature_name=name, start=start, end=end)
    return made


SEQUENCE = {"pooling_type": "FIRSTN", "max_sequence_length": 4}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            configs("ADDN", **SEQUENCE),
            r"layout 'x': feature 'a' is a sequence \(FIRSTN\) and can only be",
        ),
        (configs("CONCAT", **SEQUENCE), "can only be joined by NONE"),
        (configs("NONE", shapes=[(-1, 3), (-1, 3)]), "it makes 1 tensors of 1 slices and needs as many shapes, got 2"),
        (configs(shapes=[(-1, 3), (-1, 3)]), "needs as many shapes, got 2"),
        (configs(shapes=[(-1, -1)]), r"sizes of a shape must be positive .*got \[-1, -1\]"),
        (configs(shapes=[(0, 3)]), r"sizes of a shape must be positive .*got \[0, 3\]"),
        (configs(shapes=[(-1, 4)]), r"its slices make a shape of \[-1, 3\], got \[-1, 4\]"),
        (configs("STACK", [("a", 0, 1), ("a", 1, 3)], [(-1, 2, 2)]), "need slices of one width"),
        (configs(slices=[("b", 0, 3)]), r"layout 'x': there is no feature 'b'; the configs have \['a'\]"),
        (configs(slices=[("a", 0, 4)]), r"columns \[0, 4\) of feature 'a' are not in its rows of 3 floats"),
        (configs(slices=[]), "layout 'x': it has no slices"),
        (configs(slice_dims=[1, 0]), r"feature 'a': slice_dims must be positive, got \[1, 0\]"),
        (configs(table=""), "feature 'a' has no table"),
        (configs(pooling_type="FIRSTN"), "feature 'a': FIRSTN needs a positive max_sequence_length, got 0"),
    ],
)
def test_configs_that_cannot_be(wrong, message):
    with pytest.raises(ValueError, match=message):
        FusedLayout(wrong)


def test_pooling_is_the_features_own():
    made = configs(pooling_type="MEAN")
    made.out_configs["x"].slice_configs[0].MergeFrom(SliceConfig(pooling_type="FIRSTN", max_sequence_length=9))
    layout = FusedLayout(made)
    out = layout.forward({"t:0": torch.tensor([1.0, 2, 3, 4, 5, 6])}, layout.shard({"a": torch.tensor([[8, 9]])}))
    assert out["x"][0].tolist() == [[2.5, 3.5, 4.5]]


def test_embeddings_that_do_not_fit():
    layout = FusedLayout(configs())
    sharded = layout.shard({"a": torch.tensor([8, 9])})
    with pytest.raises(ValueError, match=r"missing \['t:0'\], unknown \['u:0'\]"):
        layout.forward({"u:0": torch.zeros(6)}, sharded)
    with pytest.raises(ValueError, match=r"embeddings\['t:0'\] has 5 floats, but its ids have 6"):
        layout.forward({"t:0": torch.zeros(5)}, sharded)
    with pytest.raises(TypeError, match="embeddings must be float32 on the CPU, got torch.float64"):
        layout.forward({"t:0": torch.zeros(6, dtype=torch.float64)}, sharded)


def test_a_fixed_batch_takes_no_other():
    layout = FusedLayout(configs(shapes=[(2, 3)]))
    two, three = (layout.shard({"a": torch.arange(size)}) for size in (2, 3))
    assert layout.forward({"t:0": torch.zeros(6)}, two)["x"][0].shape == (2, 3)
    with pytest.raises(ValueError, match="layout 'x' is for batches of 2, got 3; -1 in its shape takes any"):
        layout.forward({"t:0": torch.zeros(9)}, three)


def test_arguments_of_the_original_function_that_do_not_fit():
    sharded = FusedLayout(configs()).shard({"a": torch.tensor([8, 9])})
    index = (sharded.fid_offset, sharded.feature_offset, sharded.nfl_offset, sharded.batch_size)
    splits = list(sharded.shards_row_split.values())

    def call(embeddings, row_split=None, ps_num=1, variant_type="example", **options):
        return fused_embedding_to_layout(embeddings, row_split, *index, variant_type, configs(), ps_num, **options)

    with pytest.raises(ValueError, match=r"have \[6\] floats, but embeddings_list has \[7\]"):
        call([torch.zeros(7)], splits)
    with pytest.raises(ValueError, match=r"have \[6\] floats, but embeddings_list has \[7\]"):
        call([torch.zeros(7)], emb_size=sharded.emb_size)
    with pytest.raises(ValueError, match="embeddings of block 0 have 5 floats, but feature 'a' has a row of 3 at 3"):
        call([torch.zeros(5)])
    with pytest.raises(ValueError, match="one tensor per table and server, 1 times 2, got 1"):
        call([torch.zeros(6)], ps_num=2)
    with pytest.raises(ValueError, match="need version=4 and fid_list_emb_row_lenth"):
        call(torch.zeros(6))
    with pytest.raises(ValueError, match="1 sizes that add up to the 6 floats"):
        call(torch.zeros(6), version=4, fid_list_emb_row_lenth=torch.tensor([5]))
    with pytest.raises(ValueError, match=r"nfl_size must be one number, 2, got \[2, 2\]; requests are taken one at"):
        call([torch.zeros(6)], nfl_size=torch.tensor([2, 2]))
    with pytest.raises(ValueError, match="variant_type must be one of"):
        call([torch.zeros(6)], variant_type="csv")
    with pytest.raises(ValueError, match="version must be one of"):
        call([torch.zeros(6)], version=1)
