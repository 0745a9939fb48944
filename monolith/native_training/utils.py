"""Small functions of the original: names, lists, shapes, gradients, collections."""

import copy
import logging
import os
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from monolith.native_training.finder import names_from_table

PS_JOB_NAME = "ps"

Key = TypeVar("Key")

_COLLECTIONS: dict[str, list[Any]] = defaultdict(list)
_log = logging.getLogger(__name__)

__getattr__ = names_from_table(__name__)


def ps_device(index: int) -> str:
    """Return the name of the place that parameter server `index` keeps its weights in.

    >>> ps_device(3)
    '/job:ps/task:3/device:CPU:0'
    """
    return f"/job:{PS_JOB_NAME}/task:{index}/device:CPU:0"


def propagate_back_gradients(
    grads_and_vars: Iterable[tuple[Tensor, Tensor]],
    xs: Iterable[Tensor],
    valid_var_set: Collection[Tensor] | None = None,
) -> list[Tensor | None]:
    """Return the gradient with respect to each of `xs`, given those with respect to tensors computed from them.

    A tensor of `xs` that nothing was computed from has None.
    """
    gradients, variables = [], []
    for gradient, variable in grads_and_vars:
        if valid_var_set is not None and not any(variable is one for one in valid_var_set):
            raise RuntimeError("Invalid variables in the input", variable, valid_var_set)
        gradients.append(gradient)
        variables.append(variable)
    return list(torch.autograd.grad(variables, list(xs), gradients, allow_unused=True))


def propagate_back_dict_gradients(
    grads_and_vars: Iterable[tuple[Tensor, Tensor]],
    x_to_key: Mapping[Tensor, Key],
    valid_var_set: Collection[Tensor] | None = None,
) -> dict[Key, list[tuple[Tensor | None, Tensor]]]:
    """Return [(gradient, x), ...] by key, in the order of `x_to_key`."""
    grouped: dict[Key, list[tuple[Tensor | None, Tensor]]] = defaultdict(list)
    found = propagate_back_gradients(grads_and_vars, x_to_key, valid_var_set)
    for gradient, (x, key) in zip(found, x_to_key.items(), strict=True):
        grouped[key].append((gradient, x))
    return grouped


def get_ndim(x: Tensor) -> int:
    """Return the number of dimensions."""
    return x.dim()


def int_shape(x: Tensor) -> tuple[int, ...]:
    """Return the shape as integers, -1 for a dimension that is not known yet (while tracing)."""
    return tuple(size if isinstance(size, int) else -1 for size in x.shape)


def extend_as_list(x: Any, n: int) -> list[Any]:
    """Return `n` values: those of a list or tuple, filled up with None; or copies of one value.

    A longer list stays as it is. (The original failed on a tuple that was too short.)

    >>> extend_as_list(("relu",), 3), extend_as_list("relu", 2)
    (['relu', None, None], ['relu', 'relu'])
    """
    if isinstance(x, list | tuple):
        return list(x) + [None] * (n - len(x)) if len(x) < n or isinstance(x, tuple) else x
    try:
        return [x if i == 0 else copy.deepcopy(x) for i in range(n)]
    except Exception:  # noqa: BLE001 - whatever a class raises that cannot be copied
        return [x] * n


def check_list(
    candidate: list[Any] | None, length_checker: Callable[[int], bool], could_be_none: bool = False
) -> list[Any] | None:
    """Return a list whose length the checker accepts; TypeError for another type, ValueError for another length."""
    if candidate is None and could_be_none:
        return None
    if not isinstance(candidate, list):
        raise TypeError(f"expected a list, got {type(candidate).__name__}")
    if not length_checker(len(candidate)):
        raise ValueError(f"a list of length {len(candidate)} does not fit here: {candidate!r}")
    return candidate


def to_list(x: Any) -> list[Any]:
    """Return a list as it is, anything else (a tuple too) as the one item of a list."""
    return x if isinstance(x, list) else [x]


def check_ops_dependence(tensors: Tensor | Sequence[Tensor], others: Tensor | Sequence[Tensor]) -> None:
    """Raise an exception if any of `tensors` was computed from one of `others`, by walking the autograd graph.

    Tensors take the place of the original's op names; those without a gradient depend on nothing.
    """
    left, right = ([one] if isinstance(one, Tensor) else list(one) for one in (tensors, others))
    reached = _reachable([one.grad_fn for one in left if one.grad_fn is not None])
    found = [one for one in right if _node(one) in reached and not any(one is other for other in left)]
    if found:
        first, second = (",".join(_words(one) for one in part) for part in (left, found))
        raise Exception(  # noqa: TRY002 - the specified type
            f"Checking ops dependence, the ops [{first}] depend on ops [{second}], which may cause ops [{second}] to "
            "be run twice."
        )


def _reachable(nodes: list[Any]) -> set[Any]:
    seen: set[Any] = set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes.extend(following for following, _ in node.next_functions)
        if hasattr(node, "variable"):  # a leaf: the node that gathers its gradient knows it
            seen.add(id(node.variable))
    return seen


def _node(tensor: Tensor) -> Any:
    return tensor.grad_fn if tensor.grad_fn is not None else id(tensor)


def _words(tensor: Tensor) -> str:
    return type(tensor.grad_fn).__name__ if tensor.grad_fn is not None else f"leaf of shape {tuple(tensor.shape)}"


def get_debugging_info_file_name(model_dir: str | os.PathLike[str]) -> str:
    """Return where the description of a running job is."""
    return str(Path(model_dir) / "debugging_info.pb")


def get_meta_graph_file_name(model_dir: str | os.PathLike[str]) -> str:
    """Return where the original keeps its graph."""
    return str(Path(model_dir) / "meta_graph_for_debugging.pb")


def get_local_host() -> str:
    """Return the IPv4 address that this machine's name stands for."""
    name = socket.gethostname() + ("" if sys.platform in ("linux", "win32") else ".local")
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise OSError(f"this machine's name {name!r} has no address: {error}; add it to /etc/hosts") from error


def get_test_tmp_dir() -> str:
    """Return the folder that tests may write to: TEST_TMPDIR, or /tmp."""
    return os.environ.get("TEST_TMPDIR", "/tmp")


def add_to_collections(names: str | Iterable[str], value: Any) -> None:
    """Append a value to the named lists; an empty list, None and the like are left out, numbers and texts never."""
    if not isinstance(value, bool | int | float | str) and not value:
        _log.info("value is %s, skip", value)
        return
    for name in [names] if isinstance(names, str) else names:
        _COLLECTIONS[name].append(value)


def get_collection(name: str) -> list[Any] | None:
    """Return what was added under a name, in order; None if nothing was."""
    return list(_COLLECTIONS[name]) if _COLLECTIONS.get(name) else None
