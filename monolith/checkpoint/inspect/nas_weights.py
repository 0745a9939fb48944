"""Architecture weights of a search, read from a snapshot."""

import os
from pathlib import Path

from safetensors import SafetensorError, safe_open

from monolith.checkpoint.format.layout import DENSE_NAME
from monolith.checkpoint.format.manifest import MANIFEST_NAME, check_files, read_manifest
from monolith.checkpoint.keep.latest import latest_state
from monolith.errors import CorruptFileError

ARCH_TENSOR_PREFIX = "arch_tensor"
"""This part of a name marks architecture weights. The original uses it without defining it."""

_MODEL = "model/"


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
