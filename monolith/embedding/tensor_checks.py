"""Tensors as the native core takes them, or an error that says what to change."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from monolith._core import native


def flat_ids(ids: Tensor) -> Tensor:
    """Return the ids as the native core takes them: int64, on the CPU, one dimension, contiguous."""
    if ids.dtype != torch.int64:
        raise TypeError(f"ids must be int64, got {ids.dtype}; convert them with .long()")
    if ids.device.type != "cpu":
        raise TypeError(f"ids must be on the CPU, got {ids.device}; move them with .cpu()")
    return ids.detach().reshape(-1).contiguous()


def concatenate_ids(ids: Sequence[Tensor]) -> tuple[Tensor, list[int]]:
    """Return the ids of several tables flattened one after the other, and how many each has."""
    flat = [flat_ids(one) for one in ids]
    return torch.cat(flat) if flat else torch.empty(0, dtype=torch.int64), [len(one) for one in flat]


def detached_floats(values: Tensor, what: str = "values") -> Tensor:
    """Return values as the native core takes them: float32, on the CPU, contiguous, without a graph."""
    if values.dtype != torch.float32:
        raise TypeError(f"{what} must be float32, got {values.dtype}; convert them with .float()")
    if values.device.type != "cpu":
        raise TypeError(f"{what} must be on the CPU, got {values.device}; move them with .cpu()")
    return values.detach().contiguous()


def float_rows(what: str, values: Tensor) -> Tensor:
    """Return `values` like `detached_floats`, once they are known to be rows: two dimensions, ids x dim."""
    if values.dim() != 2:
        raise TypeError(
            f"{what} must have 2 dimensions (ids x dim), got shape {tuple(values.shape)}; use .view(-1, dim)"
        )
    return detached_floats(values, what)


def check_finite(table: str, ids: Tensor, values: Tensor) -> None:
    """Raise a ValueError that names table, id and value if one of the rows `values`, one per id, is not finite.

    `Table.assign` checks by itself. This is for callers who must know that all rows of several tables are good before
    they change the first, as the receiver of a delta. One native pass; `values` are as `float_rows` returns them.

    >>> check_finite("movie", torch.tensor([7, 8]), torch.tensor([[1.0], [torch.inf]]))
    Traceback (most recent call last):
    ...
    ValueError: table 'movie': the value of id 8 in row 1, column 0 is inf; nothing was changed: ...
    """
    place = native.first_not_finite(values.reshape(-1))
    if place == values.numel():
        return
    row, column = divmod(place, values.shape[1])
    raise ValueError(
        f"table {table!r}: the value of id {int(ids.reshape(-1)[row])} in row {row}, column {column} is "
        f"{float(values[row, column])}; nothing was changed: leave such rows out, or mend them"
    )


def concatenate_values(rows: Mapping[str, tuple[Tensor, Tensor]], dims: Mapping[str, int]) -> Tensor:
    """Return the values of several tables, given as (ids, values) by name, flattened in the order of `dims`."""
    for name, (ids, values) in rows.items():
        if values.shape != (ids.numel(), dims[name]):
            raise ValueError(
                f"table {name!r}: values must be {ids.numel()} x {dims[name]} (ids x dim), got "
                f"{' x '.join(map(str, values.shape))}"
            )
    flat = [detached_floats(rows[name][1]).reshape(-1) for name in dims if name in rows]
    return torch.cat(flat) if flat else torch.empty(0)


def check_out(out: Tensor, num_dims: int = 2) -> Tensor:
    """Return `out` if the native core can write to it: float32, on the CPU, contiguous, not part of a graph."""
    if out.dtype != torch.float32 or out.device.type != "cpu":
        raise TypeError(f"out must be float32 on the CPU, got {out.dtype} on {out.device}")
    if out.dim() != num_dims:
        raise TypeError(f"out must have {num_dims} dimensions, got shape {tuple(out.shape)}")
    if not out.is_contiguous():
        raise TypeError(f"out must be contiguous, got strides {out.stride()} for shape {tuple(out.shape)}")
    return out.detach()


def check_seconds(what: str, time: int) -> int:
    """Return `time` if it is a number of seconds that a row can hold, 0 to 2**32 - 1."""
    if not 0 <= time < 1 << 32:
        raise ValueError(f"{what} must be seconds, 0 to {(1 << 32) - 1}, got {time}; divide milliseconds by 1000")
    return time
