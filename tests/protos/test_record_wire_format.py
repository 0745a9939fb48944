"""Bytes of the record messages, written out by hand from the field numbers and wire types."""

import pytest
from google.protobuf.message import Message

from monolith.protos import (
    data_op_config_pb2,
    example_pb2,
    feature_pb2,
    instance_pb2,
    line_id_pb2,
    tf_example_pb2,
    transform_config_pb2,
)

LINE_ID = line_id_pb2.LineId(uid=1, req_time=300, item_id=2, actions=[1, 2], chnid=5, sample_rate=0.5, rank=3)
LINE_ID_HEX = "11 0100000000000000 18 ac02 21 0200000000000000 32 02 01 02 98 01 05 dd 01 0000003f 88 09 03"

CASES: dict[str, tuple[Message, str]] = {
    "line id": (LINE_ID, LINE_ID_HEX),
    "line id: strings, a flag, unpacked strategies": (
        line_id_pb2.LineId(
            pre_actions=[7], special_strategies=[4, 5], device_type="d", cid="c", user_id="u", is_draw=True,
            data_source_name="s",
        ),
        "ba 01 01 07  b8 02 04  b8 02 05  ca 02 01 64  82 03 01 63  8a 03 01 75  b8 05 01  da 0e 01 73",
    ),
    "tf.Example, an int64 list": (
        tf_example_pb2.Example(
            features=tf_example_pb2.Features(
                feature={"a": tf_example_pb2.Feature(int64_list=tf_example_pb2.Int64List(value=[-1, 3]))}
            )
        ),
        "0a 16 0a 14  0a 01 61  12 0f 1a 0d 0a 0b ffffffffffffffffff01 03",
    ),
    "tf.Feature, floats": (
        tf_example_pb2.Feature(float_list=tf_example_pb2.FloatList(value=[1.0])), "12 06 0a 04 0000803f"
    ),
    "tf.Feature, bytes": (tf_example_pb2.Feature(bytes_list=tf_example_pb2.BytesList(value=[b"x"])), "0a 03 0a 01 78"),
    "instance": (
        instance_pb2.Instance(
            fid=[1 << 54], label=[1.0], instance_weight=2.0, line_id=line_id_pb2.LineId(rank=3),
            label_tag=[instance_pb2.LabelTag(key=1, val=1.0)], data_source_key=256,
        ),
        "0a 08 0000000000004000  1a 04 0000803f  25 00000040  2a 03 88 09 03  3a 07 08 01 15 0000803f  a0 06 80 02",
    ),
    "instance feature": (
        feature_pb2.Feature(name="f", fid=[1], float_value=[1.0], int64_value=[2], bytes_value=[b"x"]),
        "0a 01 66  12 08 0100000000000000  1a 04 0000803f  22 01 02  2a 01 78",
    ),
    "instance feature, lists of lists": (
        feature_pb2.Feature(
            fid_list=[feature_pb2.Fixed64List(value=[1])], float_list=[feature_pb2.FloatList(value=[1.0])],
            int64_list=[feature_pb2.Int64List(value=[2])], bytes_list=[feature_pb2.BytesList(value=[b"x"])],
        ),
        "32 0a 0a 08 0100000000000000  3a 06 0a 04 0000803f  42 03 0a 01 02  4a 03 0a 01 78",
    ),
    "request": (
        instance_pb2.Request(req_id="r", ut=1, uid=2, req_time=3, user="u"),
        "0a 01 72  10 01  19 0200000000000000  20 03  32 01 75",
    ),
    "example": (
        example_pb2.Example(
            named_feature=[
                example_pb2.NamedFeature(
                    name="f", id=3, sorted_id=4,
                    feature=example_pb2.Feature(fid_v2_list=example_pb2.FidList(value=[1 << 48])),
                )
            ],
            line_id=line_id_pb2.LineId(rank=3), label=[1.0], instance_weight=2.0, data_source_key=1,
        ),
        "0a 15 0a 01 66 12 0c 12 0a 0a 08 0000000000000100 18 03 30 04"
        "  a2 06 03 88 09 03  aa 06 04 0000803f  b5 06 00000040  b8 06 01",
    ),
    "example batch": (
        example_pb2.ExampleBatch(
            named_feature_list=[
                example_pb2.NamedFeatureList(
                    name="f", type=example_pb2.SHARED, id=9,
                    feature=[example_pb2.Feature(int64_list=example_pb2.Int64List(value=[5]))],
                )
            ],
            batch_size=2, data_source_key=1,
        ),
        "0a 0e 0a 01 66 12 05 2a 03 0a 01 05 18 01 20 09  18 02  a0 06 01",
    ),
    "channel cache": (
        example_pb2.ChannelCache(
            channel_id=1, feature_datas=[example_pb2.FeatureData(gid=2, fids=[3], origin_cnt=4, sample_cnt=5)]
        ),
        "08 01 12 09 08 02 12 01 03 20 04 28 05",
    ),
    "slice config": (
        example_pb2.SliceConfig(
            feature_name="f", start=1, end=2, feature_idx=3, slice_idx=4, pooling_type=example_pb2.FIRSTN,
            max_sequence_length=6,
        ),
        "0a 01 66 10 01 18 02 20 03 28 04 50 03 58 06",
    ),
    "feature config": (
        example_pb2.FeatureConfig(table="t", pooling_type=example_pb2.MEAN, slice_dims=[8], max_sequence_length=2),
        "0a 01 74 10 01 1a 01 08 20 02",
    ),
    "label conf": (
        data_op_config_pb2.LabelConf(
            conf=[data_op_config_pb2.TaskLabelConf(pos_actions=[1], neg_actions=[2], sample_rate=0.5)]
        ),
        "0a 09 08 01 10 02 1d 0000003f",
    ),
    "tf record description": (
        data_op_config_pb2.TFRecordFeatureDescription(
            sparse_features={"f": 3}, dense_features=["d"], label="l", instance_weight="w"
        ),
        "0a 05 0a 01 66 10 03  12 01 64  1a 01 6c  22 01 77",
    ),
    "transforms": (
        transform_config_pb2.TransformConfig(
            configs=[
                transform_config_pb2.TransformConfig.OneTransformConfig(
                    basic_config=transform_config_pb2.BasicTransformConfig(
                        filter_by_value=transform_config_pb2.FilterByValueConfig(
                            field_name="f", op="eq", int_operand=[1], keep_empty=True
                        )
                    )
                )
            ]
        ),
        "0a 0f 0a 0d 2a 0b 0a 01 66 12 02 65 71 20 01 30 01",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("message", "by_hand"), CASES.values(), ids=CASES)
def test_bytes(message: Message, by_hand: str) -> None:
    assert message.SerializeToString(deterministic=True).hex(" ") == bytes.fromhex(by_hand).hex(" ")
    assert type(message).FromString(bytes.fromhex(by_hand)) == message


def numbers(message: type[Message]) -> dict[str, int]:
    return {field.name: field.number for field in message.DESCRIPTOR.fields}


def test_numbers_of_the_feature_kinds() -> None:
    assert numbers(example_pb2.Feature) == {
        "fid_v1_list": 1, "fid_v2_list": 2, "float_list": 3, "double_list": 4, "int64_list": 5, "bytes_list": 6,
        "fid_v2_lists": 7, "float_lists": 8, "double_lists": 9, "int64_lists": 10, "bytes_lists": 11,
        "int64_value": 12, "float_value": 13, "double_value": 14, "bytes_value": 15, "fid_v1_lists": 16,
    }  # fmt: skip
    assert numbers(transform_config_pb2.BasicTransformConfig) == {
        "filter_by_fid": 1, "filter_by_action": 2, "filter_by_label": 3, "add_label": 4, "filter_by_value": 5,
    }  # fmt: skip


def test_packages_and_defaults_of_the_original() -> None:
    packages = {
        line_id_pb2: "idl.matrix.proto", feature_pb2: "idl.matrix.proto", instance_pb2: "parser.proto",
        example_pb2: "monolith.io.proto", tf_example_pb2: "tensorflow",
        data_op_config_pb2: "monolith.native_training.data.config",
        transform_config_pb2: "monolith.native_training.data",
    }  # fmt: skip
    assert {module.DESCRIPTOR.package for module in packages} == set(packages.values())
    assert all(module.DESCRIPTOR.package == package for module, package in packages.items())
    assert line_id_pb2.LineId().sample_rate == 1.0
    assert transform_config_pb2.AddLabelConfig().new_sample_rate == 1.0
    assert data_op_config_pb2.TaskLabelConf().sample_rate == 1.0
    assert dict(example_pb2.PoolingType.items()) == {"SUM": 0, "MEAN": 1, "FIRSTN": 3}
    assert dict(example_pb2.OutType.items()) == {"CONCAT": 0, "STACK": 1, "ADDN": 2, "NONE": 3}
