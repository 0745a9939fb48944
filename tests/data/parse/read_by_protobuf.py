"""The columns of records as the protobuf library reads them: what the parser must agree with."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from monolith.data.parse import FLT_MIN, INVALID_LABEL
from monolith.protos import example_pb2, feature_pb2, instance_pb2, line_id_pb2

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


def raw(text: str | bytes) -> bytes:
    """The bytes of a string field; the library gives bytes where they are no UTF-8."""
    return text.encode() if isinstance(text, str) else text


def ints_of(feature: example_pb2.Feature) -> list[int]:
    """The values that a column of int64 takes from a feature: ids in layout v2 and plain numbers."""
    match feature.WhichOneof("type"):
        case "fid_v1_list":
            return [v1_to_v2(fid) for fid in feature.fid_v1_list.value]
        case "fid_v2_list":
            return [signed(fid) for fid in feature.fid_v2_list.value]
        case "int64_value":
            return [feature.int64_value]
    return list(feature.int64_list.value)


def floats_of(feature: example_pb2.Feature) -> list[float]:
    match feature.WhichOneof("type"):
        case "float_value":
            return [feature.float_value]
        case "double_value":
            return [float(np.float32(feature.double_value))]
        case "double_list":
            return [float(np.float32(value)) for value in feature.double_list.value]
    return list(feature.float_list.value)


def bytes_of(feature: example_pb2.Feature) -> bytes:
    return feature.bytes_value or b"".join(feature.bytes_list.value)


def weight(value: float) -> float:
    return value if value > 0 else 1.0


def line_id_row(line: line_id_pb2.LineId) -> dict[str, Any]:
    return {
        "uid": signed(line.uid), "req_time": line.req_time, "actions": list(line.actions), "chnid": line.chnid,
        "sample_rate": line.sample_rate, "special_strategies": padded(line.special_strategies, 2, 0),
        "user_id": list(raw(line.user_id)), "is_draw": int(line.is_draw), "rank": line.rank,
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
    return {
        "v1": ints_of(get("v1")),
        "v2": ints_of(get("v2")),
        "dense": padded(floats_of(get("dense")), 3, 0.0),
        "wide": scalar_float(floats_of(get("wide")), get("wide").WhichOneof("type") is not None),
        "ints": ints_of(get("ints")),
        "text": list(bytes_of(get("text"))),
        "number": padded(ints_of(get("number")), 1, 0)[0],
        "real": floats_of(get("real")),
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
            "label": padded(floats_of(features["__LABEL__"]), 2, INVALID_LABEL),
            "instance_weight": weight(floats_of(features["instance_weight"])[0]),
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
    none = feature_pb2.Feature()

    def ints(name: str) -> list[int]:
        feature = features.get(name, none)
        return [signed(fid) for fid in feature.fid] + list(feature.int64_value)

    return {
        "slot_5": [signed(fid) for fid in instance.fid if fid >> 54 == 5],
        "slot_1023": [signed(fid) for fid in instance.fid if fid >> 54 == 1023],
        "ids": ints("ids"),
        "dense": padded(features.get("dense", none).float_value, 3, 0.0),
        "ints": padded(ints("ints"), 2, 0),
        "text": list(b"".join(features.get("text", none).bytes_value)),
        "label": padded(instance.label, 2, INVALID_LABEL),
        "instance_weight": weight(instance.instance_weight),
    } | line_id_row(instance.line_id)  # fmt: skip
