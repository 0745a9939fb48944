"""Whether one tensor was computed from another, as far as gradients know."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor


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
