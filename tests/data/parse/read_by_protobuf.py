"""The columns of records as the protobuf library reads them: what the parser must agree with."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from monolith.data.parse import FLT_MIN, INVALID_LABEL
from monolith.protos import example_pb2, instance_pb2, line_id_pb2

PAYLOAD = (1 << 48) - 1


def signed(fid: int) -> int:
    return fid - (1 << 64) if fid >> 63 else fid


def v1_to_v2(fid: int) -> int:
    return (fid & PAYLOAD) | (fid >> 54) << 48


def padded(values: Sequence[Any], width: int, fill: Any) -> list[Any]:
    return (list(values) + [fill] * width)[:width]


def scalar_float(values: Sequence[float], there: bool) -> float:
    """An empty list that is there reads as FLT_MIN, a feature that is not as 0."""
    return float(np.float32(values[0])) if values else FLT_MIN if there else 0.0


def weight(value: float) -> float:
    return value if value > 0 else 1.0


def line_id_row(line: line_id_pb2.LineId) -> dict[str, Any]:
    return {
        "uid": signed(line.uid), "req_time": line.req_time, "actions": list(line.actions), "chnid": line.chnid,
        "sample_rate": line.sample_rate, "special_strategies": padded(line.special_strategies, 2, 0),
        "user_id": list(line.user_id.encode()), "is_draw": int(line.is_draw), "rank": line.rank,
    }  # fmt: skip


LINE_ID = {
    "uid": None, "req_time": None, "actions": None, "chnid": None, "sample_rate": None, "special_strategies": 2,
    "user_id": None, "is_draw": None, "rank": None,
}  # fmt: skip
FEATURES = {
    "v1": "int64[]", "v2": "int64[]", "dense": "float32[3]", "wide": "float32", "ints": "int64[]", "text": "bytes",
    "number": "int64", "real": "float32[]", "label": "float32[2]", "instance_weight": "float32",
}  # fmt: skip


def feature_row(features: dict[str, example_pb2.Feature]) -> dict[str, Any]:
    """The columns of FEATURES but for label and weight."""
    none = example_pb2.Feature()
    get = lambda name: features.get(name, none)  # noqa: E731
    wide = get("wide")
    return {
        "v1": [v1_to_v2(fid) for fid in get("v1").fid_v1_list.value],
        "v2": [signed(fid) for fid in get("v2").fid_v2_list.value],
        "dense": padded(get("dense").float_list.value, 3, 0.0),
        "wide": scalar_float(wide.double_list.value, wide.WhichOneof("type") == "double_list"),
        "ints": list(get("ints").int64_list.value),
        "text": list(b"".join(get("text").bytes_list.value)),
        "number": get("number").int64_value,
        "real": [get("real").float_value] if get("real").WhichOneof("type") == "float_value" else [],
    }


def example_row(example: example_pb2.Example) -> dict[str, Any]:
    own = {
        "label": padded(example.label, 2, INVALID_LABEL),
        "instance_weight": weight(example.instance_weight),
    }
    return feature_row({one.name: one.feature for one in example.named_feature}) | own | line_id_row(example.line_id)


def batch_rows(batch: example_pb2.ExampleBatch) -> list[dict[str, Any]]:
    rows = []
    lists = {one.name: one for one in batch.named_feature_list}
    for row in range(batch.batch_size):
        features = {name: one.feature[0 if one.type == example_pb2.SHARED else row] for name, one in lists.items()}
        own = {
            "label": padded(features["__LABEL__"].float_list.value, 2, INVALID_LABEL),
            "instance_weight": weight(features["instance_weight"].float_list.value[0]),
        }
        line = line_id_pb2.LineId.FromString(features["__LINE_ID__"].bytes_list.value[0])
        rows.append(feature_row(features) | own | line_id_row(line))
    return rows


INSTANCE_FEATURES = {
    "ids": "int64[]", "dense": "float32[3]", "ints": "int64[2]", "text": "bytes", "label": "float32[2]",
    "instance_weight": "float32",
}  # fmt: skip
SLOTS = {"slot_5": 5, "slot_1023": 1023}


def instance_row(instance: instance_pb2.Instance) -> dict[str, Any]:
    features = {one.name: one for one in instance.feature}
    values = lambda name, kind: list(getattr(features[name], kind)) if name in features else []  # noqa: E731
    return {
        "slot_5": [signed(fid) for fid in instance.fid if fid >> 54 == 5],
        "slot_1023": [signed(fid) for fid in instance.fid if fid >> 54 == 1023],
        "ids": [signed(fid) for fid in values("ids", "fid")],
        "dense": padded(values("dense", "float_value"), 3, 0.0),
        "ints": padded(values("ints", "int64_value"), 2, 0),
        "text": list(b"".join(values("text", "bytes_value"))),
        "label": padded(instance.label, 2, INVALID_LABEL),
        "instance_weight": weight(instance.instance_weight),
    } | line_id_row(instance.line_id)  # fmt: skip
