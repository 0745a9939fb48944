"""Dense tensors of several shards as those of one process."""

from collections.abc import Iterable, Mapping

from torch import Tensor

from monolith.checkpoint.format.dense_state import OPTIMIZER
from monolith.checkpoint.format.tensor_tree import flatten_tree, restore_tree
from monolith.errors import CorruptFileError

_TREE = f"{OPTIMIZER}.json"


def joined_dense_parts(parts: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors of all shards; the states of their optimizers become one.

    Settings of the optimizer are those of the first shard that has an optimizer.
    """
    joined: dict[str, Tensor] = {}
    state: dict[int, object] = {}
    groups: object = None
    for part in parts:
        own = {name: tensor for name, tensor in part.items() if not _is_state(name)}
        if twice := sorted(joined.keys() & own.keys()):
            raise ValueError(f"the dense tensors {', '.join(twice)} are in two shards; each lives in one")
        joined |= own
        if _TREE not in part:
            continue
        tree = restore_tree(OPTIMIZER, part)
        if not isinstance(tree, dict) or not isinstance(tree.get("state"), dict) or "param_groups" not in tree:
            raise CorruptFileError("the saved state of the dense optimizer is none")
        if twice := sorted(state.keys() & tree["state"].keys()):
            raise ValueError(f"the optimizer's state of parameters {twice} is in two shards; each lives in one")
        state |= tree["state"]
        groups = tree["param_groups"] if groups is None else groups
    if groups is not None:
        joined |= flatten_tree(OPTIMIZER, {"state": dict(sorted(state.items())), "param_groups": groups})
    return joined


def _is_state(name: str) -> bool:
    return name == _TREE or name.startswith(f"{OPTIMIZER}/")
