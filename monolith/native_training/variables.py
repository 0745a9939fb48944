"""Cached variables: this process's copies of tensors that parameter servers own."""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from monolith.hooks import Hook, RunContext, StepValues
from monolith.parallel.dense.ps_variable import PsVariable, read_all


@dataclass(slots=True)
class CachedVariableAssociates:
    """The copies of a variable."""

    async_fetched_var: Tensor
    """What was fetched last."""

    async_cached_var: Tensor
    """What arithmetic uses."""


@dataclass(slots=True)
class CachedVariableMeta:
    """All cached variables of this process; one that nobody uses any more leaves."""

    var_id_to_assoc: dict[int, CachedVariableAssociates] = field(default_factory=dict)
    """By `id(variable)`."""


_META = CachedVariableMeta()
_VARIABLES: dict[int, "weakref.ref[PsVariable]"] = {}
_LOCK = threading.Lock()


def cached_value(var: PsVariable, async_cached_var: Tensor) -> Tensor:
    """Return the copy's value; its gradient goes to the variable, never to the copy."""
    return var.with_gradient(async_cached_var)


def cached_variable_creator(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
    """Return the variable that `next_creator(**kwargs)` makes; arithmetic with it uses a copy in this process.

    The copy changes when `fetch_all_cached_variables` and `assign_all_cached_variables` ran; `read()` asks the owner. A
    tensor of this process needs no copy and is returned as it is.
    """
    var = next_creator(**kwargs)
    if isinstance(var, Tensor):
        return var
    if not isinstance(var, PsVariable):
        raise ValueError(
            "Only ResourceVariable is supported. Do you disable V2 behavior or use strategy? Here that is a "
            f"PsVariable; next_creator returned a {type(var).__name__}"
        )
    if var.cached is not None:
        raise ValueError("The variable has already been cached. Consider about removing cache_device.")
    copies = CachedVariableAssociates(var.initial_value.clone(), var.initial_value.clone())
    var.cached = copies.async_cached_var
    with _LOCK:
        _META.var_id_to_assoc[id(var)] = copies
        _VARIABLES[id(var)] = weakref.ref(var)
    weakref.finalize(var, _forget, id(var))
    return var


def fetch_all_cached_variables() -> None:
    """Fetch what the owners have, with one request to each; arithmetic does not use it yet."""
    variables = _cached_variables()
    for (_, copies), value in zip(variables, read_all([variable for variable, _ in variables]), strict=True):
        copies.async_fetched_var.copy_(value)


def assign_all_cached_variables() -> None:
    """Let arithmetic use what was fetched last."""
    for _, copies in _cached_variables():
        copies.async_cached_var.copy_(copies.async_fetched_var)


class FetchAllCachedVariablesHook(Hook):
    """Fetches all cached variables during each step, and lets arithmetic use them after it.

    The first step waits for its values before it begins.
    """

    def __init__(self) -> None:
        """Start without any step."""
        self._first_run = True
        self._thread: ThreadPoolExecutor | None = None
        self._fetching: Future[None] | None = None

    def after_create_session(self, context: RunContext) -> None:
        """Make ready for a first step."""
        del context
        self._first_run = True
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "fetch-cached-variables")

    def before_run(self, context: RunContext) -> None:
        """Start to fetch; the first time, also wait for it and use it."""
        del context
        assert self._thread is not None, "after_create_session runs first"
        if self._first_run:
            self._first_run = False
            fetch_all_cached_variables()
            assign_all_cached_variables()
        self._fetching = self._thread.submit(fetch_all_cached_variables)

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """Wait for what was fetched, and use it."""
        del context, values
        if self._fetching is not None:
            self._fetching.result()
            assign_all_cached_variables()

    def end(self, context: RunContext) -> None:
        """Stop the thread."""
        del context
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None


def _cached_variables() -> list[tuple[PsVariable, CachedVariableAssociates]]:
    with _LOCK:
        found = [(one(), _META.var_id_to_assoc[number]) for number, one in _VARIABLES.items()]
    return [(variable, copies) for variable, copies in found if variable is not None]


def _forget(number: int) -> None:
    with _LOCK:
        _VARIABLES.pop(number, None)
        _META.var_id_to_assoc.pop(number, None)
