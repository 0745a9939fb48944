"""tf.Example records turned into Example records."""

import math
from collections.abc import Iterable, Mapping, Sequence

from google.protobuf.message import DecodeError

from monolith.data.parse.bad_record import BadRecord, BadRecordError
from monolith.data.parse.parse_functions import Records
from monolith.data.parse.record_parser import records_of
from monolith.features.string_hash import hash_bytes
from monolith.protos import example_pb2, tf_example_pb2
from monolith.tensors import Ragged

MAX_SLOT = (1 << 15) - 1
PAYLOAD_MASK = (1 << 48) - 1


def tf_example_to_example(
    serialized: Records,
    sparse_features: Mapping[str, int],
    dense_features: Sequence[str],
    label: str,
    instance_weight: str | None = None,
) -> Ragged:
    """Return Example records made of tf.Example records, to be parsed by `parse_examples`.

    Args:
        serialized: The tf.Example records.
        sparse_features: Features that become ids of layout v2, with their slots (1 to 32767). An integer is the id's
            payload itself, a string is hashed (`city_hash64`), a float x becomes int(log2(|x| + 1)).
        dense_features: Features that are taken over as they are.
        label: The float feature that holds the labels; "" for none.
        instance_weight: The float feature that holds the weight; records without one weigh 1.
    """
    _check_names(sparse_features, dense_features, label, instance_weight)
    dense = set(dense_features)
    converted = []
    for index, record in enumerate(_each(serialized)):
        try:
            features = tf_example_pb2.Example.FromString(record).features.feature
        except DecodeError:
            raise BadRecordError(BadRecord(index, 0, "expected a tf.Example"), 1) from None
        example = example_pb2.Example(instance_weight=1.0)
        for name in sorted(features):
            feature = features[name]
            if name == label:
                example.label.extend(feature.float_list.value)
            elif name == instance_weight:
                if len(feature.float_list.value) == 1:
                    example.instance_weight = feature.float_list.value[0]
            elif name in sparse_features:
                slot = sparse_features[name]
                named = example.named_feature.add(name=name, id=slot)
                named.feature.fid_v2_list.value.extend(_fids(feature, slot))
            elif name in dense:
                _copy_dense(feature, example.named_feature.add(name=name).feature)
        converted.append(example.SerializeToString())
    return records_of(converted)


def _each(serialized: Records) -> Iterable[bytes]:
    if not isinstance(serialized, Ragged):
        return serialized
    data = serialized.values.numpy().tobytes()
    splits = serialized.row_splits.tolist()
    return [data[begin:end] for begin, end in zip(splits, splits[1:], strict=False)]


def _fids(feature: tf_example_pb2.Feature, slot: int) -> list[int]:
    kind = feature.WhichOneof("kind")
    if kind == "bytes_list":
        payloads = [hash_bytes(value) for value in feature.bytes_list.value]
    elif kind == "float_list":
        payloads = [int(math.log2(abs(value) + 1)) for value in feature.float_list.value]
    else:
        payloads = list(feature.int64_list.value)
    return [slot << 48 | payload & PAYLOAD_MASK for payload in payloads]


def _copy_dense(feature: tf_example_pb2.Feature, out: example_pb2.Feature) -> None:
    kind = feature.WhichOneof("kind")
    if kind == "int64_list":
        out.int64_list.value.extend(feature.int64_list.value)
    elif kind == "float_list":
        out.float_list.value.extend(feature.float_list.value)
    elif kind == "bytes_list":
        out.bytes_list.value.extend(feature.bytes_list.value)


def _check_names(
    sparse_features: Mapping[str, int], dense_features: Sequence[str], label: str, instance_weight: str | None
) -> None:
    wrong = {name: slot for name, slot in sparse_features.items() if not 1 <= slot <= MAX_SLOT}
    if wrong:
        raise ValueError(f"slots must be 1 to {MAX_SLOT}, got {wrong}")
    if len(set(sparse_features.values())) != len(sparse_features):
        raise ValueError(f"each sparse feature needs a slot of its own, got {dict(sparse_features)}")
    others = [*dense_features, *(name for name in (label, instance_weight) if name)]
    names = [*sparse_features, *others]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{', '.join(twice)} stand for two things; sparse_features, dense_features, label and instance_weight "
            "must not overlap"
        )
