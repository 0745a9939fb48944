"""Records for the parser's tests, and what they hold, taken out of the messages in plain Python."""

from typing import Any

import numpy as np

from monolith.protos import example_pb2, feature_pb2, instance_pb2, line_id_pb2, tf_example_pb2


def tf_example(**features: Any) -> bytes:
    """A tf.Example: lists of int, float or bytes by name."""
    example = tf_example_pb2.Example()
    for name, values in features.items():
        feature = example.features.feature[name]
        if values and isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif values and isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return example.SerializeToString()


def fid_v1(slot: int, payload: int) -> int:
    return slot << 54 | payload


def fid_v2(slot: int, payload: int) -> int:
    return slot << 48 | payload


def line_id(seed: int = 0) -> line_id_pb2.LineId:
    rng = np.random.default_rng(seed)
    return line_id_pb2.LineId(
        uid=int(rng.integers(2**63)),
        req_time=int(rng.integers(2**40)),
        item_id=int(rng.integers(2**63)),
        actions=rng.integers(-5, 300, rng.integers(0, 4)).tolist(),
        chnid=int(rng.integers(-3, 50)),
        sample_rate=float(np.float32(rng.random())),
        special_strategies=rng.integers(0, 300, rng.integers(0, 3)).tolist(),
        user_id="u" * int(rng.integers(0, 200)),
        is_draw=bool(rng.integers(2)),
        rank=int(rng.integers(100)),
    )


def random_tf_example(rng: np.random.Generator) -> tf_example_pb2.Example:
    example = tf_example_pb2.Example()
    for name in rng.permutation(["ids", "more", "one", "dense", "label", "text", "unused"]).tolist():
        if rng.random() < 0.1:
            continue
        feature = example.features.feature[name]
        count = int(rng.integers(0, 6))
        if name in ("ids", "more", "one"):
            feature.int64_list.value.extend((rng.integers(-(2**63), 2**63, count) >> rng.integers(0, 63)).tolist())
            feature.int64_list.SetInParent()
        elif name in ("dense", "label"):
            feature.float_list.value.extend(rng.normal(size=count).tolist())
            feature.float_list.SetInParent()
        else:
            feature.bytes_list.value.append(rng.bytes(count * 40))
    return example


def random_feature(rng: np.random.Generator, kind: str) -> example_pb2.Feature:
    feature = example_pb2.Feature()
    count = int(rng.integers(0, 5))
    if kind in ("fid_v1_list", "fid_v2_list"):
        getattr(feature, kind).value.extend(rng.integers(0, 2**63, count).tolist())
    elif kind in ("float_list", "double_list"):
        getattr(feature, kind).value.extend(rng.normal(size=count).tolist())
    elif kind == "int64_list":
        feature.int64_list.value.extend(rng.integers(-(2**40), 2**40, count).tolist())
    elif kind == "bytes_list":
        feature.bytes_list.value.append(rng.bytes(count))
    elif kind == "int64_value":
        feature.int64_value = int(rng.integers(-9, 9))
    elif kind == "float_value":
        feature.float_value = float(rng.normal())
    getattr(feature, kind) if kind.endswith("value") else getattr(feature, kind).SetInParent()
    return feature


KINDS = {
    "v1": "fid_v1_list", "v2": "fid_v2_list", "dense": "float_list", "wide": "double_list", "ints": "int64_list",
    "text": "bytes_list", "number": "int64_value", "real": "float_value", "unused": "fid_v2_list",
}  # fmt: skip


def random_example(rng: np.random.Generator) -> example_pb2.Example:
    example = example_pb2.Example(line_id=line_id(int(rng.integers(1000))))
    for name in rng.permutation(list(KINDS)).tolist():
        if rng.random() < 0.8:
            example.named_feature.add(name=name, id=3, feature=random_feature(rng, KINDS[name]))
    example.label.extend(rng.normal(size=rng.integers(0, 4)).tolist())
    example.instance_weight = float(rng.normal())
    return example


def random_example_batch(rng: np.random.Generator) -> example_pb2.ExampleBatch:
    num_rows = int(rng.integers(1, 6))
    batch = example_pb2.ExampleBatch(batch_size=num_rows)
    for name in rng.permutation(list(KINDS)).tolist():
        shared = rng.random() < 0.3
        column = batch.named_feature_list.add(name=name, type=example_pb2.SHARED if shared else example_pb2.INDIVIDUAL)
        for _ in range(1 if shared else num_rows):
            column.feature.append(random_feature(rng, KINDS[name]))
    labels = batch.named_feature_list.add(name="__LABEL__")
    weights = batch.named_feature_list.add(name="instance_weight")
    lines = batch.named_feature_list.add(name="__LINE_ID__")
    for _ in range(num_rows):
        labels.feature.append(random_feature(rng, "float_list"))
        weights.feature.add().float_list.value.append(float(rng.normal()))
        lines.feature.add().bytes_list.value.append(line_id(int(rng.integers(1000))).SerializeToString())
    return batch


def random_instance(rng: np.random.Generator) -> instance_pb2.Instance:
    instance = instance_pb2.Instance(line_id=line_id(int(rng.integers(1000))))
    slots = rng.choice([1, 5, 9, 1023], rng.integers(0, 8)).tolist()
    instance.fid.extend(fid_v1(slot, int(rng.integers(2**54))) for slot in slots)
    instance.label.extend(rng.normal(size=rng.integers(0, 4)).tolist())
    instance.instance_weight = float(rng.normal())
    count = int(rng.integers(0, 5))
    features = [
        feature_pb2.Feature(name="ids", fid=rng.integers(0, 2**63, count).tolist()),
        feature_pb2.Feature(name="dense", float_value=rng.normal(size=count).tolist()),
        feature_pb2.Feature(name="ints", int64_value=rng.integers(-(2**40), 2**40, count).tolist()),
        feature_pb2.Feature(name="text", bytes_value=[rng.bytes(count)]),
    ]
    instance.feature.extend(feature for feature in features if rng.random() < 0.8)
    return instance
