"""tf.Example records turned into Example records."""

from collections.abc import Mapping, Sequence

import torch

from monolith._core import native
from monolith.data.parse.bad_record import BadRecord, BadRecordError
from monolith.data.parse.parse_functions import RawRecords
from monolith.data.parse.record_parser import records_of
from monolith.tensors import Ragged

MAX_SLOT = (1 << 15) - 1


def tf_example_to_example(
    serialized: RawRecords,
    sparse_features: Mapping[str, int],
    dense_features: Sequence[str],
    label: str,
    instance_weight: str | None = None,
) -> Ragged:
    """Return Example records made of tf.Example records, to be parsed by `parse_examples`.

    It runs in compiled code on all cores. Features come out in the order of their names; others are dropped.

    Args:
        serialized: The tf.Example records.
        sparse_features: Features that become ids of layout v2, with their slots (1 to 32767). An integer is the id's
            payload itself, a string is hashed (`city_hash64`), a float x becomes int(log2(|x| + 1)).
        dense_features: Features that are taken over as they are.
        label: The float feature that holds the labels; "" for none.
        instance_weight: The float feature that holds the weight; records without one weigh 1.

    Raises:
        BadRecordError: A record is damaged, or a float that should become an id is not finite.
    """
    _check_names(sparse_features, dense_features, label, instance_weight)
    roles: list[tuple[str, str, int]] = [(name, "sparse", slot) for name, slot in sparse_features.items()]
    roles += [(name, "dense", 0) for name in dense_features]
    roles += [(name, role, 0) for name, role in ((label, "label"), (instance_weight, "instance_weight")) if name]
    records = serialized if isinstance(serialized, Ragged) else records_of(serialized)
    if records.values.dtype != torch.uint8:
        raise TypeError(f"records must be a Ragged of uint8, got {records.values.dtype}")
    values, row_splits, bad = native.TfExampleConverter(roles).convert(records.values, records.row_splits)
    if bad:
        raise BadRecordError(BadRecord(*bad[0]), len(bad))
    return Ragged.unchecked(values, row_splits)


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
