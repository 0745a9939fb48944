"""Parsing tf.Examples against TensorFlow's `parse_example` and the protobuf package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from google.protobuf.internal import api_implementation
from torch import Tensor

from benchmarks.data.records import DENSE_NAMES, ID_NAMES, LABEL, Array, Records, make_parser
from benchmarks.data.sizes import DataSizes
from benchmarks.ids import checksum
from benchmarks.machine import num_cores
from benchmarks.measure import Contender, interleave, speed_ratio, timed
from benchmarks.peer_process import TENSORFLOW, start_peer
from monolith.data.parse import TfExampleParser
from monolith.protos.tf_example_pb2 import Example
from monolith.tensors import Ragged

Notice = Callable[[str], None]
KINDS = {"fixed": "int64", "ragged": "int64[]"}
"""An id per event as one number or as a list: what models with one and with many values per feature read."""


def measure_parsing(records: Records, sizes: DataSizes, folder: Path, notice: Notice) -> dict[str, Any]:
    """Return seconds per batch and ratios, for ids of both kinds; a peer that is missing has no entry."""
    contenders: dict[str, Contender] = {}
    for kind, id_type in KINDS.items():
        parser = make_parser(id_type)
        _check(parser, records)
        contenders[f"ours_{kind}"] = _our_parse(parser, records, sizes)
    if api_implementation.Type() == "upb":
        contenders["protobuf"] = _protobuf_parse(records, sizes)
    else:
        notice(f"protobuf runs on its {api_implementation.Type()} implementation, not on upb: not compared with it")
    records.write_arrays(folder)
    settings = {"folder": str(folder), "batch_size": sizes.batch_size, "batches_per_round": sizes.parsed_batches}
    names = {"ids": ID_NAMES, "floats": (LABEL, *DENSE_NAMES)}
    tensorflow = start_peer(TENSORFLOW, {**settings, **names, "num_threads": num_cores()}, notice)
    if tensorflow is None:
        return _result(contenders, records, sizes)
    with tensorflow:
        for kind in KINDS:
            contenders[f"tensorflow_{kind}"] = tensorflow.contender(kind, lambda seed: _id_checksum(records, seed))
        return _result(contenders, records, sizes)


def batch_number(seed: int, place: int, num_batches: int) -> int:
    """Return which batch is the one at a place of the round of a seed."""
    return (seed + place) % num_batches


def _id_checksum(records: Records, seed: int) -> int:
    return checksum(records.ids(seed % (len(records.columns[LABEL]) // records.batch_size)))


def _check(parser: TfExampleParser, records: Records) -> None:
    columns, _ = parser(records.batch(0))
    for name, column in columns.items():
        values = column.values if isinstance(column, Ragged) else column
        if not np.array_equal(values.numpy(), records.columns[name][: records.batch_size]):
            raise RuntimeError(f"column {name} was not parsed as it was written")


def _our_parse(parser: TfExampleParser, records: Records, sizes: DataSizes) -> Contender:
    def run(seed: int) -> float:
        numbers = [batch_number(seed, place, sizes.num_batches) for place in range(sizes.parsed_batches)]
        batches = [records.batch(number) for number in numbers]

        def parse_all() -> None:
            for batch in batches:
                parser(batch)

        return timed(parse_all) / len(batches)

    return run


def _protobuf_parse(records: Records, sizes: DataSizes) -> Contender:
    def run(seed: int) -> float:
        batch = records.batch(seed % sizes.num_batches).to_bytes_list()
        parsed: dict[str, Tensor] = {}
        seconds = timed(lambda: parsed.update(_parse_with_protobuf(batch)))
        found: Array = np.stack([parsed[name].numpy() for name in ID_NAMES])
        if not np.array_equal(found, records.ids(seed % sizes.num_batches)):
            raise RuntimeError("protobuf parsed other ids than were written")
        return seconds

    return run


def _parse_with_protobuf(batch: list[bytes]) -> dict[str, Tensor]:
    """Return the columns, in the fastest way that was found: one message for all records, values by list append."""
    example = Example()
    ids: dict[str, list[int]] = {name: [] for name in ID_NAMES}
    floats: dict[str, list[float]] = {name: [] for name in (LABEL, *DENSE_NAMES)}
    for record in batch:
        example.ParseFromString(record)
        feature = example.features.feature
        for name, numbers in ids.items():
            numbers.append(feature[name].int64_list.value[0])
        for name, values in floats.items():
            values.append(feature[name].float_list.value[0])
    tensors = {name: torch.tensor(numbers) for name, numbers in ids.items()}
    return tensors | {name: torch.tensor(values) for name, values in floats.items()}


def _result(contenders: dict[str, Contender], records: Records, sizes: DataSizes) -> dict[str, Any]:
    samples = interleave(contenders, rounds=sizes.rounds)
    result: dict[str, Any] = {
        "bytes_per_record": len(records.serialized.values) / sizes.num_records,
        "records": {name: taken.summary(sizes.batch_size) for name, taken in samples.items()},
    }
    for kind in KINDS:
        ours = samples[f"ours_{kind}"]
        for peer in ("protobuf", f"tensorflow_{kind}"):
            if peer in samples:
                result[f"{kind}_vs_{peer.partition('_')[0]}"] = speed_ratio(ours, samples[peer])
    return result
