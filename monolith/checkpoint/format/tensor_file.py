"""Tensors by name in one file, with the rights of any other new file: safetensors would keep it for its owner alone."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import safetensors.torch
from numpy.typing import NDArray
from torch import Tensor


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file of tensors; a file of this name is replaced."""
    with _usual_rights(path):
        safetensors.torch.save_file(dict(tensors), path)


def save_arrays(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write a safetensors file of arrays, in whatever order their elements lie; a file of this name is replaced."""
    # It writes memory as it lies, and would turn a transposed array around.
    in_order = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with _usual_rights(path):
        safetensors.numpy.save_file(in_order, path)


@contextmanager
def _usual_rights(path: Path) -> Iterator[None]:
    path.touch()
    mode = path.stat().st_mode
    yield
    path.chmod(mode)
