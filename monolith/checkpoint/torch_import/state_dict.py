"""Weights that PyTorch saved, read without running anything that is in the file."""

import pickle
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from monolith.errors import CorruptFileError

_WRAPPERS = ("state_dict", "model_state_dict", "model")

# Where TorchRec's EmbeddingBagCollection and EmbeddingCollection, and plain modules, keep the weights of a table.
_ENDINGS = ("embedding_bags.{}.weight", "embeddings.{}.weight", "{}.weight", "{}")


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a `.safetensors` file, or of what `torch.save` wrote of a state_dict.

    Raises:
        CorruptFileError: It is damaged, or holds anything but tensors; nothing in it is executed.
    """
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except SafetensorError as error:
            raise CorruptFileError(f"{path} cannot be read: {error}") from error
    _check_archive(path)
    try:
        values: Any = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, OSError, KeyError) as error:
        # torch's own message recommends to run what is in the file.
        raise CorruptFileError(
            f"{path} is no file of tensors alone, and nothing else is read ({type(error).__name__}); write one with "
            "torch.save(model.state_dict(), …), or a .safetensors file"
        ) from error
    while isinstance(values, Mapping) and (inside := [name for name in _WRAPPERS if _is_mapping(values.get(name))]):
        values = values[inside[0]]
    if not isinstance(values, Mapping):
        raise CorruptFileError(f"{path} holds a {type(values).__name__}, not a state_dict")
    return {str(name): value for name, value in values.items() if isinstance(value, Tensor)}


def _check_archive(path: Path) -> None:
    """Compare what `torch.save` wrote with its checksums, as torch does not; its oldest form has none."""
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, EOFError, ValueError, RuntimeError) as error:
        raise CorruptFileError(f"{path} cannot be read: {error}") from error
    if damaged is not None:
        raise CorruptFileError(f"{path} is damaged: {damaged} in it does not fit its checksum; save or copy it again")


def find_weight(state: Mapping[str, Tensor], table: str, key: str | None = None) -> Tensor:
    """Return the [rows, dim] weight of a table: the one at `key`, or the one named as TorchRec or PyTorch names it.

    The only tensor of an `nn.Embedding` by itself, `weight`, is taken for any table.

    >>> state = {"ebc.embedding_bags.movie.weight": torch.ones(3, 2), "over.weight": torch.ones(1, 4)}
    >>> find_weight(state, "movie").shape
    torch.Size([3, 2])
    """
    if key is not None:
        if key not in state:
            raise ValueError(f"there is no {key!r} among the tensors: {_listed(state)}")
        return _two_dimensional(key, state[key])
    for ending in _ENDINGS:
        name = ending.format(table)
        found = [one for one in state if one == name or one.endswith(f".{name}")]
        if len(found) > 1:
            raise ValueError(f"several tensors are named like table {table!r}: {', '.join(found)}; say which (--key)")
        if found:
            return _two_dimensional(found[0], state[found[0]])
    if list(state) == ["weight"]:  # nn.Embedding by itself
        return _two_dimensional("weight", state["weight"])
    raise ValueError(f"no tensor is named like table {table!r}; say which (--key) of {_listed(state)}")


def _two_dimensional(name: str, tensor: Tensor) -> Tensor:
    if tensor.dim() != 2 or not tensor.is_floating_point() or tensor.shape[1] == 0:
        raise ValueError(f"{name!r} is a {tensor.dtype} tensor of shape {tuple(tensor.shape)}, not rows of floats")
    return tensor


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _listed(state: Mapping[str, Tensor]) -> str:
    names = sorted(state)
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "") or "none"
