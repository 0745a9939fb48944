"""Records with damaged bytes: what protobuf still reads, the parser reads alike; the rest it refuses."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from monolith.data.parse import (
    BadRecordError,
    ExampleBatchParser,
    ExampleParser,
    InstanceParser,
    RecordParser,
    TfExampleParser,
    records_of,
)
from monolith.protos import tf_example_pb2
from monolith.tensors import Ragged
from tests.data.parse import read_by_protobuf as expected
from tests.data.parse.made_records import random_example, random_example_batch, random_instance, random_tf_example

NUM_MUTATIONS = 1000

# Reasons that are none to protobuf: it does not know what was asked for.
OWN_REASONS = ("was asked for", "exactly one is wanted", "features for", "batch_size", "expected a line id")


def mutated(record: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(record)
    for _ in range(rng.integers(1, 4)):
        place = int(rng.integers(len(changed) + 1))
        match rng.integers(6):
            case 0 if place < len(changed):
                changed[place] ^= 1 << int(rng.integers(8))
            case 1 if place < len(changed):
                changed[place] = int(rng.integers(256))
            case 2 if rng.random() < 0.2:
                del changed[place:]
            case 3:
                changed[place : place + 1] = b"\xff\xff\xff\xff\x07"
            case 4:
                begin = int(rng.integers(len(changed) + 1))
                changed[place:place] = changed[begin : begin + int(rng.integers(30))]
            case _:
                # A whole field again or moved leaves a record that is readable more often than single bytes do.
                changed += changed[: int(rng.integers(1, 3)) * len(changed)]
    return bytes(changed)


def tf_example_rows(example: tf_example_pb2.Example) -> list[dict[str, Any]]:
    if len(UnknownFieldSet(example.features)):
        raise LookupError("the library sets map entries aside that have fields it does not know")
    features = example.features.feature
    get = lambda name: features[name] if name in features else tf_example_pb2.Feature()  # noqa: E731
    return [
        {
            "ids": list(get("ids").int64_list.value),
            "more": expected.padded(get("more").int64_list.value, 3, 0),
            "one": expected.padded(get("one").int64_list.value, 1, 0)[0],
            "dense": list(get("dense").float_list.value),
            "label": expected.padded(get("label").float_list.value, 1, 0.0)[0],
            "text": list(b"".join(get("text").bytes_list.value)),
        }
    ]


TF_FEATURES = {
    "ids": "int64[]", "more": "int64[3]", "one": "int64", "dense": "float32[]", "label": "float32", "text": "bytes",
}  # fmt: skip
FORMATS: dict[str, tuple[RecordParser, Callable[..., Message], Callable[..., list[dict[str, Any]]]]] = {
    "tf_example": (TfExampleParser(TF_FEATURES), random_tf_example, tf_example_rows),
    "example": (
        ExampleParser(expected.FEATURES, line_id=expected.LINE_ID),
        random_example,
        lambda message: [expected.example_row(message)],
    ),
    "example_batch": (
        ExampleBatchParser(expected.FEATURES, line_id=expected.LINE_ID),
        random_example_batch,
        expected.batch_rows,
    ),
    "instance": (
        InstanceParser(expected.INSTANCE_FEATURES, slots=expected.SLOTS, line_id=expected.LINE_ID),
        random_instance,
        lambda message: [expected.instance_row(message)],
    ),
}


def rows_of(columns: dict[str, Any]) -> list[dict[str, Any]]:
    lists = {name: c.to_list() if isinstance(c, Ragged) else c.tolist() for name, c in columns.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_mutations(name: str) -> None:
    parser, make, read = FORMATS[name]
    rng = np.random.default_rng(7)
    num_compared = num_refused = 0
    for _ in range(NUM_MUTATIONS):
        message = make(rng)
        record = mutated(message.SerializeToString(deterministic=True), rng)
        try:
            rows = rows_of(parser(records_of([record]))[0])
        except BadRecordError as error:
            num_refused += 1
            assert error.bad.record == 0
            assert 0 <= error.bad.offset <= len(record)
            if any(reason in error.bad.reason for reason in OWN_REASONS):
                continue
            with pytest.raises(DecodeError):
                read(type(message).FromString(record))
            continue
        try:
            wanted = read(type(message).FromString(record))
        except (DecodeError, UnicodeDecodeError, LookupError):
            continue  # protobuf also checks what was not asked for, and that names are UTF-8
        # As text, since a NaN does not equal itself.
        assert repr(rows) == repr(wanted), record.hex()
        num_compared += 1
    assert num_compared > NUM_MUTATIONS // 20
    assert num_refused > NUM_MUTATIONS // 10
