"""What a served model takes and gives: named tensors, and lists of ids, with a row per example."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from monolith.data.parse import ExampleBatchParser, ExampleParser, InstanceParser, TfExampleParser
from monolith.data.parse.record_columns import RecordColumns, SerializedFormat
from monolith.data.parse.record_parser import RecordParser
from monolith.errors import shown
from monolith.features import ids_of_texts
from monolith.model.extra_outputs import SERVING_DEFAULT
from monolith.tensors import Ragged

Array = NDArray[Any]

Values = Array | Tensor | Ragged | Sequence[Any]
"""What an input may be given as. For an input of texts, arrays and lists hold texts, a `Tensor` or `Ragged` ids."""

LENGTHS = ":lengths"
"""The lists of the input NAME are two tensors in the Open Inference Protocol: NAME, and NAME followed by this."""

# Name in files and in the Open Inference Protocol -> what NumPy calls it.
DATATYPES: dict[str, np.dtype[Any]] = {
    "INT64": np.dtype(np.int64),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "INT32": np.dtype(np.int32),
    "BOOL": np.dtype(np.bool_),
}
TEXT = "BYTES"
"""Datatype of an input whose ids are the string hash of texts; an output cannot have it."""

_PARSERS: Mapping[SerializedFormat, Callable[..., RecordParser]] = {
    "tf_example": TfExampleParser,
    "example": ExampleParser,
    "example_batch": ExampleBatchParser,
    "instance": InstanceParser,
}

_LISTS = (-1, -1)
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
    """A key of `DATATYPES`, or `TEXT`."""

    shape: tuple[int, ...] = (-1,)
    """-1 is the batch; [-1, -1] is a list of any length per example."""

    missing: int | float | None = None
    """What null in a request reads as, an id for texts; None: null is an error. A missing list is empty."""

    @property
    def has_lists(self) -> bool:
        """Examples have lists of ids, which differ in length."""
        return self.shape == _LISTS

    @property
    def dtype(self) -> np.dtype[Any]:
        """What NumPy calls the values; texts are ids by then."""
        return DATATYPES["INT64" if self.datatype == TEXT else self.datatype]

    def tensors(self) -> "tuple[TensorSpec, ...]":
        """Return the tensors of the Open Inference Protocol: the input, or the values of its lists and their lengths.

        >>> [spec.name for spec in TensorSpec("genres", "INT64", (-1, -1)).tensors()]
        ['genres', 'genres:lengths']
        """
        if not self.has_lists:
            return (self,)
        return TensorSpec(self.name, self.datatype, missing=self.missing), TensorSpec(self.name + LENGTHS, "INT64")

    @property
    def column_type(self) -> str:
        """The type of the column that a parser makes for it."""
        item = "hash" if self.datatype == TEXT else {"INT64": "int64", "INT32": "int64"}.get(self.datatype, "float32")
        if self.has_lists:
            return f"{item}[]"
        return item if len(self.shape) == 1 else f"{item}[{self.shape[1]}]"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it, in the form of the Open Inference Protocol."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        name, datatype, shape = fields["name"], fields["datatype"], fields["shape"]
        if not isinstance(name, str) or not isinstance(shape, list):
            raise ValueError(f"a tensor has a name and a list as its shape, got {shown(name)} and {shown(shape)}")
        if datatype not in DATATYPES and datatype != TEXT:
            raise ValueError(f"tensor {shown(name)}: unknown datatype {shown(datatype)}")
        missing = fields.get("missing")
        if missing is not None:
            _check_missing(name, datatype, missing)
        if shape == list(_LISTS):
            if datatype not in ("INT64", TEXT):
                raise ValueError(f"tensor {shown(name)}: lists hold INT64 or {TEXT}, got {datatype}")
            return cls(name, datatype, _LISTS, missing)
        is_batch = bool(shape) and shape[0] == -1
        if not is_batch or not all(type(size) is int and size >= 0 for size in shape[1:]):
            raise ValueError(f"tensor {shown(name)}: a shape is -1 and then sizes, got {shown(shape)}")
        return cls(name, datatype, tuple(shape), missing)


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and outputs of a model, in order."""

    inputs: tuple[TensorSpec, ...]

    outputs: tuple[TensorSpec, ...]

    def __post_init__(self) -> None:
        """Reject names that a request could not tell apart."""
        for specs in (self.request_tensors, self.outputs):
            names = [spec.name for spec in specs]
            twice = [name for number, name in enumerate(names) if name in names[:number]]
            if twice:
                raise ValueError(f"two tensors have the name {shown(twice[0])}; rename a column")
        wrong = [spec for spec in self.outputs if spec.datatype == TEXT or spec.has_lists]
        if wrong:
            raise ValueError(f"output {shown(wrong[0].name)} holds texts or lists; outputs hold numbers")

    @property
    def request_tensors(self) -> tuple[TensorSpec, ...]:
        """The inputs as the Open Inference Protocol has them: lists are two tensors."""
        return tuple(tensor for spec in self.inputs for tensor in spec.tensors())

    def input(self, name: str) -> TensorSpec:
        """Return one input; an unknown name is a ValueError that lists the known ones."""
        for spec in self.inputs:
            if spec.name == name:
                return spec
        raise ValueError(f"there is no input {shown(name)}; the inputs are {self._input_names()}")

    def check(self, columns: Mapping[str, Values]) -> dict[str, Array | Ragged]:
        """Return the columns in order, contiguous and of the right types, or say which one is wrong.

        A type that fits without loss (int32 for int64) is converted; another is a ValueError. Numbers in Python lists
        have no type, and are converted if the input's holds them. Texts become ids. A column of one row may stand
        beside longer ones: it counts for all examples, and is returned as it is.

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
        checked = {spec.name: _checked(spec, columns[spec.name]) for spec in self.inputs}
        lengths = {name: num_rows(column) for name, column in checked.items()}
        if len(set(lengths.values()) - {1}) > 1:
            sizes = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(
                f"all inputs must have the same number of rows, or one row that counts for all examples, got {sizes}"
            )
        return checked

    def record_columns(self, record_format: SerializedFormat) -> RecordColumns:
        """Return how the inputs are read out of records that have a feature of each name."""
        types = {spec.name: spec.column_type for spec in self.inputs}
        numbers = (spec for spec in self.inputs if spec.datatype != TEXT and not spec.has_lists)
        missing = {spec.name: spec.missing for spec in numbers if spec.missing is not None}
        parser = _PARSERS[record_format](types, missing=missing)
        return RecordColumns(format=record_format, columns=parser.columns)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "inputs": [
                spec.to_json() | ({} if spec.missing is None else {"missing": spec.missing}) for spec in self.inputs
            ],
            "outputs": [spec.to_json() for spec in self.outputs],
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        inputs, outputs = ([TensorSpec.from_json(spec) for spec in fields[part]] for part in ("inputs", "outputs"))
        return cls(tuple(inputs), tuple(outputs))

    def _input_names(self) -> str:
        return ", ".join(spec.name for spec in self.inputs) or "none"


@dataclass(frozen=True, slots=True)
class NamedOutputs:
    """What one signature of a version gives: some of the model's outputs, under names of its own."""

    outputs: dict[str, str]
    """Name in the signature -> output of the model."""

    head_name: str | None = None
    """The head that they belong to, as the model says."""

    head_type: str | None = None
    """What that head is, as the model says."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "outputs": self.outputs,
            **({} if self.head_name is None else {"head_name": self.head_name}),
            **({} if self.head_type is None else {"head_type": self.head_type}),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        outputs, head_name, head_type = fields["outputs"], fields.get("head_name"), fields.get("head_type")
        texts = [*outputs.values(), *(one for one in (head_name, head_type) if one is not None)]
        if not outputs or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"a signature has outputs, and names that are texts, got {shown(fields)}")
        return cls(dict(outputs), head_name, head_type)


def chosen_signature(signatures: Mapping[str, NamedOutputs], name: str | None) -> NamedOutputs:
    """Return one signature, the default one if none is named; a ValueError lists those there are.

    >>> chosen_signature({"serving_default": NamedOutputs({"pred": "pred"})}, "vectors")
    Traceback (most recent call last):
        ...
    ValueError: there is no signature 'vectors'; the signatures are serving_default
    """
    wanted = SERVING_DEFAULT if name is None else name
    if wanted not in signatures:
        raise ValueError(f"there is no signature {shown(wanted)}; the signatures are {', '.join(signatures)}")
    return signatures[wanted]


def _check_missing(name: str, datatype: str, missing: object) -> None:
    whole = isinstance(missing, int) and not isinstance(missing, bool) and -(2**63) <= missing < 2**63
    real = datatype in ("FP32", "FP64") and isinstance(missing, float) and math.isfinite(missing)
    if not whole and not real:
        raise ValueError(f"tensor {shown(name)}: null cannot stand for {shown(missing)} in {datatype}")


def num_rows(column: Array | Ragged) -> int:
    """Return the number of examples."""
    return column.num_rows if isinstance(column, Ragged) else len(column)


def _checked(spec: TensorSpec, values: Values) -> Array | Ragged:
    if not spec.has_lists:
        if isinstance(values, Ragged):
            raise ValueError(f"input {spec.name!r} has one value per example, got a list of them; give a plain array")
        if isinstance(values, Tensor):
            return checked_column(spec, values.numpy())
        if spec.datatype == TEXT:
            return checked_column(spec, _hashed(spec, np.asarray(values)))
        return checked_column(spec, values if isinstance(values, np.ndarray) else _plain(spec, values))
    if isinstance(values, Ragged):
        flat, lengths = values.values.numpy(), values.row_lengths()
    else:
        texts, lengths = _flat(spec, values)
        flat = _hashed(spec, texts)
    ids = checked_column(spec.tensors()[0], flat)
    return Ragged.from_row_lengths(torch.from_numpy(np.require(ids, requirements=["W"])), lengths)


def _flat(spec: TensorSpec, values: Array | Tensor | Sequence[Any]) -> tuple[Array, Tensor]:
    """Return the values of Python lists, or of an array of two dimensions, end to end, and the length of each."""
    wrong = [one for one in values if not isinstance(one, list | tuple | np.ndarray)]
    if wrong:
        given = shown(wrong[0])
        raise ValueError(f"input {spec.name!r} has a list of ids per example, got {given}; put a single one in a list")
    flat = [value for row in values for value in row]
    lengths = torch.tensor([len(row) for row in values], dtype=torch.int64)
    return np.array(flat) if flat else np.empty(0, np.int64), lengths


def checked_column(spec: TensorSpec, column: Array) -> Array:
    """Return values of one tensor, contiguous and of its type, or say what is wrong; texts are ids by now."""
    if not np.can_cast(column.dtype, spec.dtype, "safe"):
        raise ValueError(
            f"input {spec.name!r} must be {spec.dtype}, got {column.dtype}; convert it with .astype({spec.dtype})"
        )
    if column.ndim != len(spec.shape) or column.shape[1:] != spec.shape[1:]:
        shape = ", ".join(("batch", *map(str, spec.shape[1:])))
        raise ValueError(f"input {spec.name!r} must have shape [{shape}], got {shown(list(column.shape))}")
    return np.ascontiguousarray(column, dtype=spec.dtype)


def _plain(spec: TensorSpec, values: Sequence[Any]) -> Array:
    """Return Python numbers as an array: they have no size of their own, and take that of the input if it holds them.

    Others are left as NumPy reads them, for `checked_column` to refuse.
    """
    try:
        found = np.asarray(values)
    except ValueError:
        raise ValueError(f"input {spec.name!r} must be numbers in lists of equal length, got {shown(values)}") from None
    if found.shape == (0,):
        return np.empty((0, *spec.shape[1:]), spec.dtype)
    if found.dtype.kind not in {"f": "iuf", "i": "iu"}.get(spec.dtype.kind, ""):
        return found
    # Too large a float becomes infinite, too large an integer another number.
    with np.errstate(over="ignore"):
        taken = found.astype(spec.dtype)
    wrong = np.isfinite(found) & ~np.isfinite(taken) if spec.dtype.kind == "f" else taken != found
    if wrong.any():
        raise ValueError(f"input {spec.name!r} must be {spec.dtype}, which does not hold {found[wrong][0]}")
    return taken


def _hashed(spec: TensorSpec, texts: Array) -> Array:
    """Return ids in place of the texts of an input that has them; a whole number counts as its decimal text."""
    if spec.datatype != TEXT:
        return texts
    flat = texts.reshape(-1).tolist()
    wrong = [text for text in flat if not isinstance(text, str | bytes | int) or isinstance(text, bool)]
    if wrong:
        raise ValueError(f"input {spec.name!r} must be texts, got {shown(wrong[0])}; convert it with str()")
    ids: Array = ids_of_texts(flat).numpy()
    return ids.reshape(texts.shape)
