"""What a served model takes and gives: named tensors whose only free dimension is the batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from monolith.errors import shown

Array = NDArray[Any]

# Name in files and in the Open Inference Protocol -> what NumPy calls it.
DATATYPES: dict[str, np.dtype[Any]] = {
    "INT64": np.dtype(np.int64),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "INT32": np.dtype(np.int32),
    "BOOL": np.dtype(np.bool_),
}
_NAMES = {dtype: name for name, dtype in DATATYPES.items()}


def datatype_name(dtype: np.dtype[Any]) -> str:
    """Return what files and the protocol call a NumPy type.

    >>> datatype_name(np.dtype("float32"))
    'FP32'
    """
    if dtype not in _NAMES:
        raise ValueError(f"a served tensor cannot be of type {dtype}; convert it to one of {', '.join(DATATYPES)}")
    return _NAMES[dtype]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output."""

    name: str

    datatype: str
    """A key of `DATATYPES`."""

    shape: tuple[int, ...] = (-1,)
    """-1 is the batch."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it, in the form of the Open Inference Protocol."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        name, datatype, shape = fields["name"], fields["datatype"], fields["shape"]
        if not isinstance(name, str) or not isinstance(shape, list):
            raise ValueError(f"a tensor has a name and a list as its shape, got {shown(name)} and {shown(shape)}")
        if datatype not in DATATYPES:
            raise ValueError(f"tensor {shown(name)}: unknown datatype {shown(datatype)}")
        is_batch = bool(shape) and shape[0] == -1
        if not is_batch or not all(type(size) is int and size >= 0 for size in shape[1:]):
            raise ValueError(f"tensor {shown(name)}: a shape is -1 and then sizes, got {shown(shape)}")
        return cls(name, datatype, tuple(shape))


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of a model, in order."""

    inputs: tuple[TensorSpec, ...]

    outputs: tuple[TensorSpec, ...]

    def input(self, name: str) -> TensorSpec:
        """Return one input; an unknown name is a ValueError that lists the known ones."""
        for spec in self.inputs:
            if spec.name == name:
                return spec
        raise ValueError(f"there is no input {shown(name)}; the inputs are {self._input_names()}")

    def check(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Return the columns in order, contiguous and of the right types, or say which one is wrong.

        A type that fits without loss (int32 for int64) is converted; another is a ValueError.

        >>> Signature((TensorSpec("uid", "INT64"),), ()).check({"user": np.array([1])})
        Traceback (most recent call last):
            ...
        ValueError: there is no input 'user'; the inputs are uid
        """
        for name in columns:
            self.input(name)
        missing = [spec.name for spec in self.inputs if spec.name not in columns]
        if missing:
            raise ValueError(f"input {missing[0]!r} is missing; the inputs are {self._input_names()}")
        checked = {spec.name: _checked_column(spec, np.asarray(columns[spec.name])) for spec in self.inputs}
        lengths = {name: len(column) for name, column in checked.items()}
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"all inputs must have the same number of rows, got {sizes}")
        return checked

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        inputs, outputs = ([TensorSpec.from_json(spec) for spec in fields[part]] for part in ("inputs", "outputs"))
        for specs in (inputs, outputs):
            names = [spec.name for spec in specs]
            if len(set(names)) < len(names):
                raise ValueError(f"two tensors have one name among {shown(names)}")
        return cls(tuple(inputs), tuple(outputs))

    def _input_names(self) -> str:
        return ", ".join(spec.name for spec in self.inputs) or "none"


def _checked_column(spec: TensorSpec, column: Array) -> Array:
    wanted = DATATYPES[spec.datatype]
    if not np.can_cast(column.dtype, wanted, "safe"):
        raise ValueError(f"input {spec.name!r} must be {wanted}, got {column.dtype}; convert it with .astype({wanted})")
    if column.ndim != len(spec.shape) or column.shape[1:] != spec.shape[1:]:
        shape = ", ".join(("batch", *map(str, spec.shape[1:])))
        raise ValueError(f"input {spec.name!r} must have shape [{shape}], got {shown(list(column.shape))}")
    return np.ascontiguousarray(column, dtype=wanted)
