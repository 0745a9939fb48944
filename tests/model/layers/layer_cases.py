"""Every layer once, with inputs it takes; in float64, so that comparisons can be close."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from monolith.model import layers

F64 = torch.float64


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Case:
    """A layer and what it is called with."""

    make: Callable[[], Any]
    inputs: Any
    name: str


def case(cls: type, inputs: Any, **arguments: Any) -> Case:
    told = ", ".join(f"{key}={value}" for key, value in arguments.items())
    return Case(lambda: cls(**arguments, dtype=F64), inputs, f"{cls.__name__}({told})")


FIELDS = normal(6, 4, 3)
ROWS = normal(6, 5)
PAIR = ([normal(6, 3, seed=1), normal(6, 3, seed=2)], [normal(6, 3, seed=3), normal(6, 3, seed=4)])

WITH_WEIGHTS = [
    case(layers.Dense, ROWS, units=3, activation="tanh"),
    case(layers.Dense, ROWS, units=3, allow_kernel_norm=True, kernel_norm_trainable=True, kernel_regularizer="l2"),
    case(layers.Dense, ROWS, units=3, in_features=5, use_bias=False),
    case(layers.MLP, ROWS, output_dims=[4, 2]),
    case(layers.MLP, ROWS, output_dims=[4, 2], activations="prelu", enable_batch_normalization=True),
    case(layers.MLP, ROWS, output_dims=[4, 2], in_features=5),
    case(layers.LHUCTower, ROWS, output_dims=[4, 2], lhuc_output_dims=[3]),
    case(layers.LHUCTower, (ROWS, normal(6, 2)), output_dims=[4, 2], enable_batch_normalization=True),
    case(layers.AddBias, ROWS),
    case(layers.LayerNorm, ROWS),
    case(layers.BatchNorm, ROWS),
    case(layers.BatchNorm, ROWS, in_features=5, renorm=True),
    case(layers.GroupInt, PAIR, use_attention=True, attention_units=[4, 1]),
    case(layers.AllInt, FIELDS, cmp_dim=2),
    case(layers.CDot, FIELDS, project_dim=2, compress_units=[5]),
    case(layers.DCN, ROWS, layer_num=2, dcn_type="vector"),
    case(layers.DCN, ROWS, layer_num=2, dcn_type="matrix", allow_kernel_norm=True),
    case(layers.DCN, ROWS, layer_num=2, dcn_type="mixed", num_experts=3, low_rank=2),
    case(layers.CIN, FIELDS, hidden_uints=[3, 2], activation="tanh"),
    case(layers.SeNet, FIELDS, num_feature=4, cmp_dim=2),
    case(layers.iRazor, FIELDS, nas_space=[0, 1, 3], feature_weight=[1.0, 2.0, 3.0, 4.0]),
    case(layers.DIN, (normal(6, 3), FIELDS), hidden_units=[4, 1]),
    case(layers.DIEN, (normal(6, 2), FIELDS), num_units=3, att_type="AUGRU", activation="tanh"),
    case(layers.DMR_U2I, (normal(6, 2), FIELDS), cmp_dim=3),
    case(layers.MMoE, ROWS, num_tasks=2, expert_output_dims=[4, 2], num_experts=3, gate_type="topk", top_k=2),
    case(layers.SNR, [normal(6, 3), normal(6, 3, seed=1)], num_out_subnet=2, out_subnet_dim=4, mode="predict"),
]
WITHOUT_WEIGHTS = [
    case(layers.GroupInt, PAIR),
    case(layers.FM, FIELDS),
    case(layers.AutoInt, FIELDS, layer_num=2),
    case(layers.CAN, (normal(6, 4, 3), normal(6, 24, seed=1)), layer_num=2),
    case(layers.LogitCorrection, (normal(6), None), sample_bias=True),
    case(layers.SumPooling, [ROWS, ROWS]),
    case(layers.AvgPooling, [ROWS, ROWS]),
    case(layers.MaxPooling, [ROWS, ROWS]),
]
ALL = [*WITH_WEIGHTS, *WITHOUT_WEIGHTS]


def total(outputs: Any) -> torch.Tensor:
    """Return a scalar in which every output has a part of its own."""
    tensors = outputs if isinstance(outputs, list | tuple) else [outputs]
    return sum(
        (torch.cos(t + i) * torch.arange(t.numel(), dtype=t.dtype).view_as(t)).sum() for i, t in enumerate(tensors)
    )


def randomised(layer: Any, *inputs: Any, seed: int = 7) -> dict[str, Any]:
    """Run a layer once, give all its weights random values, and return them as arrays."""
    layer(*inputs)
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.normal_(generator=source)
    return {name: weight.detach().numpy() for name, weight in layer.named_parameters()}
