"""One row as the EntryDump message of files and tools."""

import struct
from collections.abc import Sequence

from monolith._core import native
from monolith.embedding.config.optimizers import Optimizer
from monolith.embedding.config.table import TableConfig
from monolith.protos.embedding_hash_table_pb2 import EntryDump
from monolith.protos.optimizer_dump_pb2 import SingleOptimizerDump

# How each optimizer lays out its state: (field, floats per weight), or a scalar field with its number of floats.
_REPEATED = {
    "adagrad": ("norm",),
    "ftrl": ("norm", "zero"),
    "group_ftrl": ("norm", "zero"),
    "adadelta": ("accum", "accum_update"),
    "adam": ("m", "v"),
    "amsgrad": ("m", "v", "vhat"),
    "momentum": ("n",),
    "rmsprop": ("n",),
    "rmspropv2": ("n",),
    "dynamic_wd_adagrad": ("norm",),
    "adamom": ("m", "v"),
}
_SCALARS = {
    "adam": ("beta1_power", "beta2_power"),
    "amsgrad": ("beta1_power", "beta2_power"),
    "group_adagrad": ("grad_square_sum",),
    "rowwise_adagrad": ("norm",),
    "adamom": ("c",),
}
_STEP = {"batch_softmax": "global_step", "dynamic_wd_adagrad": "last_update_step"}


def entry_bytes(config: TableConfig, entry: native.EntryDump) -> bytes:
    """Return the serialized EntryDump of a row; b"" for an id without one. The id itself is not part of it."""
    if not entry.found:
        return b""
    dump = EntryDump(num=entry.weights, last_update_ts_sec=entry.last_seen)
    state = list(entry.state)
    if not config.serving:
        for segment in config.segments:
            count = _fill(dump.opt.dump.add(), segment.optimizer, segment.dim, state)
            del state[:count]
            if segment.optimizer.kind == "moving_average":  # the original keeps no dump of it
                del dump.opt.dump[-1]
    return dump.SerializeToString()


def _fill(dump: SingleOptimizerDump, optimizer: Optimizer, dim: int, state: Sequence[float]) -> int:
    kind = optimizer.kind
    if kind == "moving_average":
        return 0
    message = getattr(dump, kind)
    message.SetInParent()
    place = 0
    for name in _REPEATED.get(kind, ()):
        getattr(message, name).extend(state[place : place + dim])
        place += dim
    for name in _SCALARS.get(kind, ()):
        setattr(message, name, state[place])
        place += 1
    if kind in _STEP:
        setattr(message, _STEP[kind], struct.unpack("<q", struct.pack("<2f", *state[place : place + 2]))[0])
        place += 2
    return place
