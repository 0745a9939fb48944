"""Tensors by name in one file."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file with the rights of any other new file: by itself it would be its owner's alone."""
    path.touch()
    mode = path.stat().st_mode
    save_file(dict(tensors), path)
    path.chmod(mode)
