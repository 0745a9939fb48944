"""Parameters whose shape is not known until the first input comes, and that optimizers may hold before."""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter


class LazyParameter(UninitializedParameter):
    """A parameter that gets its shape later, and stays the same object when it does.

    torch's optimizers can be made of it; also those that make their state at once, such as Adagrad: what they make
    like the parameter gets its shape when the parameter does.
    """

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter of this shape, with whatever was made like it."""
        followers = self.__dict__.pop("_followers", [])
        super().materialize(shape, device, dtype)
        for follower, value in followers:
            follower.data = torch.full_like(self.data, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        made: Self = super().__deepcopy__({})  # type: ignore[no-untyped-call]
        memo[id(self)] = made
        made.__dict__["_followers"] = [
            (memo.setdefault(id(follower), follower.clone()), value)
            for follower, value in self.__dict__.get("_followers", [])
        ]
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.is_complex:
            return args[0].dtype.is_complex
        if func in (torch.full_like, torch.zeros_like) and isinstance(args[0], cls):
            value = args[1] if func is torch.full_like else 0.0
            follower = torch.empty(0, device=args[0].data.device, dtype=args[0].data.dtype)
            args[0].__dict__.setdefault("_followers", []).append((follower, value))
            return follower
        return super().__torch_function__(func, types, args, kwargs)  # type: ignore[no-untyped-call]


class LazyBuffer(UninitializedBuffer):
    """A buffer that gets its shape later, and that can be copied before."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            device, dtype = self.data.device, self.data.dtype
            memo[id(self)] = type(self)(device=device, dtype=dtype)  # type: ignore[call-arg]
        return memo[id(self)]  # type: ignore[no-any-return]


def lazy_parameter(dtype: torch.dtype | None = None) -> nn.Parameter:
    """Return a parameter that has no shape yet."""
    # torch types the constructor as that of a parameter with values.
    return LazyParameter(dtype=dtype)  # type: ignore[call-arg, return-value]


def lazy_buffer(dtype: torch.dtype | None = None) -> Tensor:
    """Return a tensor that has no shape yet, for `register_buffer`."""
    return LazyBuffer(dtype=dtype)  # type: ignore[call-arg]


def fill(tensor: nn.Parameter | Tensor, shape: tuple[int, ...], values: Tensor) -> None:
    """Give a lazy parameter or buffer its shape and first values, in its own dtype and on its own device."""
    tensor.materialize(shape)  # type: ignore[union-attr]
    with torch.no_grad():
        tensor.copy_(values)
