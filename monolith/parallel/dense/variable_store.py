"""Small named tensors on a parameter server: variables that one process made and all may read and change."""

import threading
from typing import ClassVar, Final

from torch import Tensor

from monolith.errors import shown
from monolith.parallel.dense.applied_batches import AppliedBatches, batch_key_of
from monolith.parallel.dense.packing import pack_named, unpack_named
from monolith.parallel.dense.requests import DenseRequest
from monolith.wire import Message

_MAX_VARIABLES: Final = 65_536


class VariableStore:
    """Tensors by name. Changes carry a key: one that was carried out before is not carried out twice."""

    TYPES: ClassVar = frozenset({DenseRequest.VARIABLE_MAKE, DenseRequest.VARIABLE_READ, DenseRequest.VARIABLE_CHANGE})

    def __init__(self) -> None:
        """Start without any."""
        self._lock = threading.Lock()
        self._values: dict[str, Tensor] = {}
        self._applied = AppliedBatches()

    def answer(self, message: Message) -> Message:
        """Make, read or change variables; the reply has the values of the named ones."""
        with self._lock:
            if message.type == DenseRequest.VARIABLE_MAKE:
                names = self._make(_tensors_of(message))
            elif message.type == DenseRequest.VARIABLE_CHANGE:
                names = self._change(message)
            else:
                names = message.meta.get("names", [])
            described, packed = pack_named({name: self._found(name) for name in names})
        return Message(type=message.type, meta={"tensors": described}, arrays={"bytes": packed})

    def _make(self, initial: dict[str, Tensor]) -> list[str]:
        """Add those that are not there; the others keep their values, but must be of the same type and shape."""
        for name, value in initial.items():
            if (known := self._values.get(name)) is not None:
                _check_alike(name, known, value)
        fresh = [name for name in initial if name not in self._values]
        if len(self._values) + len(fresh) > _MAX_VARIABLES:
            raise ValueError(f"a parameter server keeps {_MAX_VARIABLES} variables, {fresh[0]!r} is one more")
        self._values |= {name: initial[name].clone() for name in fresh}
        return list(initial)

    def _change(self, message: Message) -> list[str]:
        given, how, index = _tensors_of(message), message.meta.get("how"), message.meta.get("at")
        partition, begin, end = batch_key_of(message)
        if how not in ("assign", "add") or not (index is None or type(index) is int):
            raise ValueError(f"a variable is changed by assign or add, at an index or whole, got {shown(how)}")
        targets: list[tuple[Tensor, Tensor]] = []
        for name, value in given.items():
            whole = self._found(name)
            if index is not None and not (whole.dim() > 0 and 0 <= index < whole.shape[0]):
                raise ValueError(f"variable {name!r} of shape {tuple(whole.shape)} has no index {index}")
            target = whole if index is None else whole[index]
            _check_alike(name, target, value)
            targets.append((target, value))
        if self._applied.is_new(partition, begin, end):
            for target, value in targets:
                if how == "assign":
                    target.copy_(value)
                else:
                    target.add_(value)
            self._applied.add(partition, end)
        return list(given)

    def _found(self, name: object) -> Tensor:
        if not isinstance(name, str) or name not in self._values:
            raise ValueError(f"there is no variable {shown(name)} on this parameter server; make it first")
        return self._values[name]


def _tensors_of(message: Message) -> dict[str, Tensor]:
    return unpack_named(message.meta.get("tensors"), message.arrays.get("bytes"))


def _check_alike(name: str, here: Tensor, given: Tensor) -> None:
    if here.shape != given.shape or here.dtype != given.dtype:
        raise ValueError(
            f"variable {name!r} is {here.dtype} of shape {tuple(here.shape)} here, got {given.dtype} of shape "
            f"{tuple(given.shape)}"
        )
