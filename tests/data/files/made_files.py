"""Framings and records that the tests of record files share."""

from itertools import product

from monolith.data.files import PbFileWriter, PbFraming, TFRecordFraming, TFRecordWriter

FRAMINGS = [
    TFRecordFraming(),
    PbFraming(lagrangex_header=True),
    *(
        PbFraming(has_sort_id=sort_id, kafka_dump=dump, kafka_dump_prefix=prefix)
        for sort_id, dump, prefix in product((False, True), repeat=3)
    ),
]


def framing_name(framing):
    if isinstance(framing, TFRecordFraming):
        return "tfrecord"
    if framing.lagrangex_header:
        return "lagrangex_header"
    names = ("has_sort_id", "kafka_dump", "kafka_dump_prefix")
    return "-".join(name for name in names if getattr(framing, name)) or "size-only"


def made_records(count, seed=0):
    """Records of different lengths, some of them empty, that tell which they are."""
    return [f"{seed}:{i}:".encode() + bytes([i % 251]) * (i * 37 % 90) if i % 5 else b"" for i in range(count)]


def write_file(path, records, framing, compression=None):
    if isinstance(framing, TFRecordFraming):
        with TFRecordWriter(str(path), compression=compression) as writer:
            writer.write_all(records)
    else:
        with PbFileWriter(str(path), framing, compression=compression) as writer:
            writer.write_all(records)
    return str(path)


def batch_records(batch):
    return [bytes(row) for row in batch.columns["record"].to_list()]
