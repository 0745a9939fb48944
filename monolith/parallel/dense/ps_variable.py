"""A tensor on a parameter server, as one process sees it."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from monolith.parallel.dense.control_clients import ControlClients
from monolith.parallel.dense.packing import pack_named, unpack_named
from monolith.parallel.dense.requests import DenseRequest
from monolith.wire import Message

How = Literal["assign", "add"]


class PsVariable:
    """A named tensor that parameter server `task` owns; the first process that makes it gives its initial value.

    Arithmetic uses this process's copy of it if there is one (`cached`), else it asks the owner; `read` always asks.
    Gradients gather in `grad`; `apply_gradient` sends them to the owner.
    """

    def __init__(
        self,
        servers: ControlClients,
        *,
        name: str,
        initial_value: Any,
        task: int = 0,
        dtype: torch.dtype | None = None,
        trainable: bool = True,
    ) -> None:
        """Make it on its owner, unless it is there already: then it keeps its value."""
        self.name, self.task = name, task
        self.initial_value = torch.as_tensor(initial_value, dtype=dtype).detach().clone()
        self.cached: Tensor | None = None
        """This process's copy."""
        self._servers = servers
        # A gradient needs a leaf to gather in; its value is never used.
        self._leaf = torch.zeros_like(self.initial_value)
        self._leaf.requires_grad_(trainable and self.initial_value.is_floating_point())
        described, packed = pack_named({name: self.initial_value})
        self._ask(Message(type=DenseRequest.VARIABLE_MAKE, meta={"tensors": described}, arrays={"bytes": packed}))

    @property
    def device(self) -> str:
        """The place of its owner."""
        return f"/job:ps/task:{self.task}"

    @property
    def shape(self) -> torch.Size:
        """Of the tensor."""
        return self.initial_value.shape

    @property
    def dtype(self) -> torch.dtype:
        """Of the tensor."""
        return self.initial_value.dtype

    @property
    def grad(self) -> Tensor | None:
        """Gradients since `zero_grad`, as `backward` left them."""
        return self._leaf.grad

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self._leaf.grad = None

    def value(self) -> Tensor:
        """Return this process's copy, or what the owner has if there is none; gradients of it come to `grad`."""
        return self.with_gradient(self.read() if self.cached is None else self.cached)

    def with_gradient(self, value: Tensor) -> Tensor:
        """Return a value whose gradients come to `grad`."""
        found: Tensor = _GradientTo.apply(self._leaf, value)  # type: ignore[no-untyped-call]
        return found

    def read(self) -> Tensor:
        """Return what the owner has now."""
        return read_all([self])[0]

    def assign(self, value: Any, *, index: int | None = None) -> Tensor:
        """Set it, or its part at an index of the first axis; return the owner's new value."""
        return self._change("assign", value, index)

    def assign_add(self, value: Any) -> Tensor:
        """Add to it; return the owner's new value."""
        return self._change("add", value, None)

    def assign_sub(self, value: Any) -> Tensor:
        """Subtract from it; return the owner's new value."""
        return self._change("add", -torch.as_tensor(value, dtype=self.dtype), None)

    def apply_gradient(self, learning_rate: float) -> Tensor:
        """Let the owner take one step against the gradient, which is forgotten then; return its new value."""
        if self.grad is None:
            raise ValueError(f"variable {self.name!r} has no gradient; call backward() of a loss that uses it")
        after = self.assign_sub(learning_rate * self.grad)
        self.zero_grad()
        return after

    def __add__(self, other: Any) -> Any:
        """Return the sum."""
        return self.value() + _plain(other)

    def __radd__(self, other: Any) -> Any:
        """Return the sum."""
        return _plain(other) + self.value()

    def __sub__(self, other: Any) -> Any:
        """Return the difference."""
        return self.value() - _plain(other)

    def __rsub__(self, other: Any) -> Any:
        """Return the difference."""
        return _plain(other) - self.value()

    def __mul__(self, other: Any) -> Any:
        """Return the product."""
        return self.value() * _plain(other)

    def __rmul__(self, other: Any) -> Any:
        """Return the product."""
        return _plain(other) * self.value()

    def __truediv__(self, other: Any) -> Any:
        """Return the quotient."""
        return self.value() / _plain(other)

    def __rtruediv__(self, other: Any) -> Any:
        """Return the quotient."""
        return _plain(other) / self.value()

    def __matmul__(self, other: Any) -> Any:
        """Return the matrix product."""
        return self.value() @ _plain(other)

    def __rmatmul__(self, other: Any) -> Any:
        """Return the matrix product."""
        return _plain(other) @ self.value()

    def __neg__(self) -> Tensor:
        """Return the negative."""
        return -self.value()

    def __float__(self) -> float:
        """Return the copy as a number."""
        return float(self.value())

    def __repr__(self) -> str:
        """Return name, place and shape."""
        return f"PsVariable({self.name!r}, {self.device}, {tuple(self.shape)}, {self.dtype})"

    def _change(self, how: How, value: Any, index: int | None) -> Tensor:
        given = torch.as_tensor(value, dtype=self.dtype).detach()
        target = self.shape if index is None else self.shape[1:]
        described, packed = pack_named({self.name: given.expand(target)})
        partition, begin, end = self._servers.calls.next()
        arrays = {
            "bytes": packed,
            "partition": np.frombuffer(partition, np.uint8),
            "range": np.array([begin, end], np.uint64),
        }
        meta = {"tensors": described, "how": how, "at": index}
        return self._ask(Message(type=DenseRequest.VARIABLE_CHANGE, meta=meta, arrays=arrays))

    def _ask(self, message: Message) -> Tensor:
        reply = self._servers.ask_one(self.task, message)
        return unpack_named(reply.meta.get("tensors"), reply.arrays.get("bytes"))[self.name].clone()


def read_all(variables: Sequence[PsVariable]) -> list[Tensor]:
    """Return what the owners of variables have now, with one request to each owner."""
    owners: dict[tuple[int, int], list[PsVariable]] = {}
    for variable in variables:
        owners.setdefault((id(variable._servers), variable.task), []).append(variable)
    found: dict[int, Tensor] = {}
    for (_, task), owned in owners.items():
        message = Message(type=DenseRequest.VARIABLE_READ, meta={"names": [one.name for one in owned]})
        reply = owned[0]._servers.ask_one(task, message)
        values = unpack_named(reply.meta.get("tensors"), reply.arrays.get("bytes"))
        found |= {id(one): values[one.name].clone() for one in owned}
    return [found[id(variable)] for variable in variables]


class _GradientTo(torch.autograd.Function):
    """The second argument, whose gradient goes to the first."""

    @staticmethod
    def forward(ctx: Any, leaf: Tensor, value: Tensor) -> Tensor:
        del ctx, leaf
        return value.detach().clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        del ctx
        return gradients[0], None


def _plain(other: Any) -> Any:
    return other.value() if isinstance(other, PsVariable) else other
