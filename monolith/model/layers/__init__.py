"""Layers of ranking models, under the names of the original.

Each is a torch module. Weights get their shape from the first input, but are there before: make optimizers as usual.
`SomeLayer.params().set(...).instantiate()` makes one from settings.
"""

from monolith.model.layers import activations, initializers, regularizers
from monolith.model.layers.activations import (
    ELU,
    LeakyReLU,
    PReLU,
    ReLU,
    Sigmoid2,
    Softmax,
    ThresholdedReLU,
)
from monolith.model.layers.interaction.can import CAN
from monolith.model.layers.interaction.cin import CIN
from monolith.model.layers.interaction.dcn import DCN
from monolith.model.layers.interaction.factorization import FFM, FM, GroupInt
from monolith.model.layers.interaction.field_interaction import AllInt, AutoInt, CDot
from monolith.model.layers.interaction.irazor import iRazor
from monolith.model.layers.interaction.senet import SeNet
from monolith.model.layers.layer import Layer, LazyLayer
from monolith.model.layers.layer_ops import ffm, fid_counter
from monolith.model.layers.logits import AddBias, LogitCorrection
from monolith.model.layers.merging import (
    DCNType,
    MergeType,
    continuous_topk,
    gumbel_keys,
    merge_tensor_list,
    sample_subset,
)
from monolith.model.layers.multi_task.grad_norm import GradNorm
from monolith.model.layers.multi_task.mmoe import MMoE
from monolith.model.layers.multi_task.snr import SNR
from monolith.model.layers.norms import BatchNorm, LayerNorm
from monolith.model.layers.pooling import AvgPooling, MaxPooling, SumPooling
from monolith.model.layers.sequence.attention_gru import (
    AGRUCell,
    dynamic_rnn_with_attention,
    static_rnn_with_attention,
)
from monolith.model.layers.sequence.dien import DIEN
from monolith.model.layers.sequence.din import DIN
from monolith.model.layers.sequence.dmr import DMR_U2I
from monolith.model.layers.towers.dense import Dense, variable_axis_size_partitioner
from monolith.model.layers.towers.lhuc import LHUCTower
from monolith.model.layers.towers.mlp import MLP
from monolith.tensors.feature_insight import feature_insight

__all__ = [
    "CAN",
    "CIN",
    "DCN",
    "DIEN",
    "DIN",
    "DMR_U2I",
    "ELU",
    "FFM",
    "FM",
    "MLP",
    "SNR",
    "AGRUCell",
    "AddBias",
    "AllInt",
    "AutoInt",
    "AvgPooling",
    "BatchNorm",
    "CDot",
    "DCNType",
    "Dense",
    "GradNorm",
    "GroupInt",
    "LHUCTower",
    "Layer",
    "LayerNorm",
    "LazyLayer",
    "LeakyReLU",
    "LogitCorrection",
    "MMoE",
    "MaxPooling",
    "MergeType",
    "PReLU",
    "ReLU",
    "SeNet",
    "Sigmoid2",
    "Softmax",
    "SumPooling",
    "ThresholdedReLU",
    "activations",
    "continuous_topk",
    "dynamic_rnn_with_attention",
    "feature_insight",
    "ffm",
    "fid_counter",
    "gumbel_keys",
    "iRazor",
    "initializers",
    "merge_tensor_list",
    "regularizers",
    "sample_subset",
    "static_rnn_with_attention",
    "variable_axis_size_partitioner",
]
