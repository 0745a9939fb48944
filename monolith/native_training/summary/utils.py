"""What the `monolith` plugin of TensorBoard is told about a tensor: which features its columns belong to."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from monolith.checkpoint.format.layout import DENSE_NAME
from monolith.checkpoint.format.manifest import MANIFEST_NAME, check_files, read_manifest
from monolith.checkpoint.keep.latest import latest_state
from monolith.errors import CorruptFileError
from monolith.native_training.finder import names_from_table
from monolith.observe.summary import PLUGIN_NAME as PLUGIN_NAME

MONOLITH_NAS_DATA = f"{PLUGIN_NAME}_nas_weight"
MONOLITH_FI_DATA = f"{PLUGIN_NAME}_feature_insight"
KTYPE, KMETA, KDATA = "tag_type", "meta", "data"

ARCH_TENSOR_PREFIX = "arch_tensor"
"""This part of a name marks architecture weights. The original uses it without defining it."""

_MODEL = "model/"

Sizes = Sequence[int] | Sequence[Sequence[int]]
Groups = Sequence[Sequence[str]]

__getattr__ = names_from_table(__name__)


class SummaryType:
    """Kinds of data the plugin shows."""

    GATING = "gating"
    SELECTING = "selecting"
    MIXED = "mixed"
    SIMPLE = "simple"
    FEATURE_INSIGHT_DIRECT = "fi_direct"
    FEATURE_INSIGHT_TRAIN = "fi_train"


def prepare_head(
    segment_names: Sequence[str] | None,
    segment_sizes: Sizes | None,
    group_info: Groups | None = None,
    raw_tag: str | None = None,
    out_type: Literal["tensor", "json", "bytes"] = "tensor",
) -> tuple[Any, str | None]:
    """Return the description of segments, and what kind of summary it is for.

    Sizes that are numbers make it `gating`, lists of sizes to choose from `selecting`, unless `raw_tag` says another.
    Numbers have a `group_index` too: the group that names a segment, counted over the groups in use, or its own.

    >>> head, kind = prepare_head(["f1", "f2"], [3, 5], [["f1", "f2"]], out_type="bytes")
    >>> kind, head
    ('gating', b'{"tag_type": "gating", "segment_names": ["f1", "f2"], "segment_sizes": [3, 5], "group_index": [0, 0]}')
    """
    if not segment_names or not segment_sizes:
        return _as_type("", out_type), raw_tag
    if len(segment_names) != len(segment_sizes):
        raise ValueError(f"there are {len(segment_names)} segment names for {len(segment_sizes)} sizes")
    plain = all(isinstance(size, int) for size in segment_sizes)
    tag = raw_tag or (SummaryType.GATING if plain else SummaryType.SELECTING)
    head: dict[str, Any] = {
        KTYPE: tag,
        "segment_names": list(segment_names),
        "segment_sizes": [size if isinstance(size, int) else list(size) for size in segment_sizes],
    }
    if plain:
        head["group_index"] = _group_index(segment_names, group_info)
    return _as_type(json.dumps(head), out_type), tag


def head_tensor(head: str | bytes) -> Tensor:
    """Return a head as a tensor of its bytes."""
    return torch.from_numpy(np.frombuffer(head.encode() if isinstance(head, str) else head, np.uint8).copy())


def _group_index(segment_names: Sequence[str], group_info: Groups | None) -> list[int]:
    """Return the group of each segment; numbers are given in the order of the groups, and none is left out."""
    groups = {name: number for number, group in enumerate(group_info or ()) for name in group}
    # A segment that no group names is a group of its own, behind the others.
    alone = {name: len(groups) + number for number, name in enumerate(segment_names) if name not in groups}
    chosen = [groups.get(name, alone.get(name, 0)) for name in segment_names]
    places = {group: place for place, group in enumerate(sorted(set(chosen)))}
    return [places[group] for group in chosen]


def _as_type(text: str, out_type: str) -> Any:
    if out_type == "bytes":
        return text.encode()
    if out_type == "json":
        return text
    if out_type == "tensor":
        return head_tensor(text)
    raise ValueError(f"out_type must be tensor, json or bytes, got {out_type!r}")


def get_nas_weight_json(ckpt_dir_or_file: str | os.PathLike[str], prefix: str | None = None) -> list[str]:
    """Return the values, as text, of the first weight whose name contains `prefix`.

    The path is a model's folder, whose newest snapshot or delta is read, one of these, or a safetensors file.

    Raises:
        FileNotFoundError: There is no snapshot.
        CorruptFileError: The file is damaged.
        ValueError: It has no such weight.
    """
    wanted = prefix or ARCH_TENSOR_PREFIX
    path = _dense_file(Path(ckpt_dir_or_file))
    try:
        with safe_open(path, "np") as file:
            names = sorted(file.keys())
            # A model's own weights before what an optimizer keeps about them.
            for name in sorted(names, key=lambda one: not one.startswith(_MODEL)):
                if wanted in name.removeprefix(_MODEL):
                    return [str(value) for value in file.get_tensor(name).flat]
    except SafetensorError as error:
        raise CorruptFileError(f"{path} cannot be read: {error}") from error
    raise ValueError(f"{path} has no weight with {wanted!r} in its name; it has {', '.join(names)[:400] or 'none'}")


def _dense_file(path: Path) -> Path:
    if path.is_file():
        return path
    folder = path if (path / MANIFEST_NAME).is_file() else latest_state(path)
    if folder is None:
        raise FileNotFoundError(f"there is no snapshot in {path}")
    check_files(folder, read_manifest(folder), unread=lambda name: name != DENSE_NAME)
    return folder / DENSE_NAME
