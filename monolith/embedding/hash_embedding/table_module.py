"""What every module over a table does: collect gradients, step, save, load, copy."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from monolith._core import native
from monolith.embedding.admission import AdmissionFilter
from monolith.embedding.config.compressors import Compressor, Fp32Compressor
from monolith.embedding.config.initializers import Initializer, RandomUniformInitializer
from monolith.embedding.config.optimizers import AdagradOptimizer, Optimizer
from monolith.embedding.config.segment import Segment
from monolith.embedding.config.table import TableConfig
from monolith.embedding.hash_embedding.table_tensors import TABLE_TENSORS, table_from_tensors, table_to_tensors
from monolith.embedding.table import NO_TIME, Table, TableMemory

MANY_GRADIENTS = 256
"""A module warns after it collected this many gradients without a step: it keeps them until the next step."""

DEFAULT_OPTIMIZER = AdagradOptimizer(learning_rate=0.05)
DEFAULT_INITIALIZER = RandomUniformInitializer(-0.05, 0.05)
DEFAULT_COMPRESSOR = Fp32Compressor()
_MODULE_TENSORS = ("global_step", "time")


@dataclass(frozen=True, slots=True)
class _Gradient:
    """What one backward pass brought for one forward pass."""

    number: int
    """Forward passes are summed in this order, whatever the order of the backward pass."""
    ids: Tensor
    """Of the batch, or each of its ids once if `unique`."""
    values: Tensor
    """A row per entry of `ids`."""
    plan: native.BatchPlan
    """Of the batch."""
    unique: bool


class TableModule(nn.Module):
    """An `nn.Module` whose rows live in a table instead of parameters. Use `HashEmbedding` or `HashEmbeddingBag`."""

    table: Table
    """The rows: assign them, look at them, track their changes, save them to files."""

    fused: bool
    """The backward pass steps the rows at once; there is no `step`."""

    global_step: int
    """Number of the next step; learning-rate functions see it."""

    time: int
    """Event time of the next step in seconds; becomes the last-seen time of the rows it changes."""

    def __init__(
        self,
        dim: int,
        *,
        optimizer: Optimizer = DEFAULT_OPTIMIZER,
        initializer: Initializer = DEFAULT_INITIALIZER,
        compressor: Compressor = DEFAULT_COMPRESSOR,
        name: str = "embedding",
        admission: AdmissionFilter | None = None,
        expire_days: int = 36500,
        max_memory_bytes: int | None = None,
        seed: int = 0,
        fused: bool = False,
    ) -> None:
        """Make an empty table of rows of `dim` floats.

        Args:
            dim: width of a row.
            optimizer: how a gradient changes a row; see `monolith.embedding`.
            initializer: first value of a new row.
            compressor: how rows read; a quantising one lets training see what serving will.
            name: names the table in messages and files.
            admission: gives an id a row only after it was seen often enough.
            expire_days: `evict` removes rows this many days after their last update.
            max_memory_bytes: new ids are refused when the table has grown to this.
            seed: of the initializer.
            fused: step the rows in the backward pass.
        """
        super().__init__()
        segment = Segment(dim, optimizer, initializer, compressor)
        config = TableConfig(
            name=name, segments=(segment,), expire_days=expire_days, max_memory_bytes=max_memory_bytes, seed=seed
        )
        self._start(config, admission, fused)

    @classmethod
    def from_config(cls, config: TableConfig, *, admission: AdmissionFilter | None = None, fused: bool = False) -> Self:
        """Return a module over a table of any configuration, of several segments for instance."""
        module = cls.__new__(cls)
        nn.Module.__init__(module)
        module._start(config, admission, fused)
        return module

    def _start(self, config: TableConfig, admission: AdmissionFilter | None, fused: bool) -> None:
        if config.serving:
            raise ValueError(
                f"table {config.name!r}: a module trains its rows; use Table for a serving table, or set serving=False"
            )
        self.table = Table(config, admission=admission)
        self.fused = fused
        self.global_step = 0
        self.time = NO_TIME
        self._gradients: list[_Gradient] = []
        self._num_forwards = 0

    @property
    def dim(self) -> int:
        """Width of a row, in floats."""
        return self.table.dim

    @property
    def num_rows(self) -> int:
        """Ids that have a row."""
        return len(self.table)

    def memory(self) -> TableMemory:
        """Return what the rows take, in bytes, and a forecast."""
        return self.table.memory()

    def evict(self, now: int | None = None) -> int:
        """Remove rows not seen for `expire_days`, counted back from `now` (default: the newest step's time)."""
        if now is not None and self.num_rows and self.table.native.max_time == NO_TIME:
            raise ValueError(
                f"table {self.table.config.name!r}: no row knows when it was last seen, so evict({now}) would remove "
                "them all; give step(time=…) the event time, in seconds"
            )
        return self.table.evict(now)

    def step(
        self, *, global_step: int | None = None, time: int | None = None, learning_rate: float | None = None
    ) -> native.ChangeResult:
        """Step every row that got a gradient since the last step, once, with the sum of its gradients; drop them.

        A NaN or infinite gradient is a ValueError: no row changes and the gradients stay; `zero_grad` skips the batch.
        A row that the step would make NaN or infinite keeps its value and state; all others are stepped, then a
        ValueError names it. `ClippedOptimizer` is the way to keep huge gradients from doing that.

        Args:
            global_step: number of the step; by default one more than the last time.
            time: event time in seconds; by default the last one given.
            learning_rate: instead of the configured ones.
        """
        return self._step_rows(
            self._collected(),
            global_step=self.global_step if global_step is None else global_step,
            time=self.time if time is None else time,
            learning_rate=learning_rate,
        )

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients collected since the last step."""
        super().zero_grad(set_to_none)
        self._gradients.clear()

    def to_tensors(self) -> dict[str, Tensor]:
        """Return rows, optimizer state and step as plain tensors by name; safetensors takes them as they are.

        The rows are one moment of the table. What an admission filter has counted is not part of it:
        `AdmissionFilter.save`.
        """
        own = {name: torch.tensor(getattr(self, name), dtype=torch.int64) for name in _MODULE_TENSORS}
        return {**table_to_tensors(self.table), **own}

    def from_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Become what `to_tensors` returned: training goes on bit for bit; what does not fit is a ValueError."""
        missing = [name for name in _MODULE_TENSORS if name not in tensors]
        if missing:
            raise ValueError(f"table {self.table.config.name!r}: the saved tensors lack {', '.join(missing)}")
        table_from_tensors(self.table, _with_max_step(tensors))
        self.global_step, self.time = (int(tensors[name]) for name in _MODULE_TENSORS)
        self._gradients.clear()

    def extra_repr(self) -> str:
        """Return what print shows between the parentheses."""
        optimizers = ", ".join(dict.fromkeys(segment.optimizer.kind for segment in self.table.config.segments))
        fused = ", fused" if self.fused else ""
        return f"{self.dim}, name={self.table.config.name!r}, optimizer={optimizers}, num_rows={self.num_rows}{fused}"

    # --- for the subclasses ------------------------------------------------------------------------------------------

    def _check_not_traced(self) -> None:
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            raise RuntimeError(
                f"table {self.table.config.name!r}: torch.jit cannot record a table; trace the layers after it, and "
                "call this module outside"
            )

    def _rows(self, ids: Tensor, plan: native.BatchPlan, *, unique: bool) -> Tensor:
        """Return the plan's rows [len(ids), dim], of its unique ids or of all; their gradient comes back here."""
        if not (self.training and torch.is_grad_enabled()):
            return _read(plan, ids, self.dim, unique=unique)
        self._num_forwards += 1
        # Autograd calls backward only where an input asks for a gradient; a table has none, so this one does.
        anchor = torch.empty(0, requires_grad=True)
        rows: Tensor = _Rows.apply(anchor, self, ids, plan, unique, self._num_forwards)  # type: ignore[no-untyped-call]
        return rows

    def _receive(self, gradient: _Gradient) -> None:
        if self.fused:
            self._step_rows(gradient, global_step=self.global_step, time=self.time)
            return
        self._gradients.append(gradient)
        if len(self._gradients) == MANY_GRADIENTS:
            warnings.warn(
                f"table {self.table.config.name!r}: {MANY_GRADIENTS} gradients were collected and none was used; call "
                "step() after backward(), zero_grad() to drop them, or eval() where nothing is trained",
                stacklevel=2,
            )

    def _collected(self) -> _Gradient:
        if len(self._gradients) == 1:
            return self._gradients[0]
        ordered = sorted(self._gradients, key=lambda gradient: gradient.number)
        ids = torch.cat([torch.empty(0, dtype=torch.int64), *(gradient.ids for gradient in ordered)])
        values = torch.cat([torch.empty(0, self.dim), *(gradient.values for gradient in ordered)])
        return _Gradient(0, ids, values, native.BatchPlan(self.table.native, ids, True), unique=False)

    def _step_rows(
        self,
        gradient: _Gradient,
        *,
        global_step: int,
        time: int,
        learning_rate: float | None = None,
    ) -> native.ChangeResult:
        config = self.table.config
        rates: Sequence[float] = (
            config.learning_rate_values(global_step)
            if learning_rate is None
            else [learning_rate] * len(config.segments)
        )
        step = gradient.plan.step_unique if gradient.unique else gradient.plan.step
        try:
            result = step(gradient.values, rates, global_step, time)
        except native.NotFiniteRow:
            self._step_taken(global_step, time)  # by all other rows: a second one would be too many
            raise
        self._step_taken(global_step, time)
        return result

    def _step_taken(self, global_step: int, time: int) -> None:
        self.global_step, self.time = global_step + 1, time
        self._gradients.clear()

    # --- what nn.Module asks -----------------------------------------------------------------------------------------

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        device = fn(torch.empty(0)).device
        if device.type != "cpu":
            raise RuntimeError(
                f"table {self.table.config.name!r}: rows live in main memory and cannot move to {device}; keep this "
                "module out of .to(), call it with ids.cpu() and move what it returns with .to(device)"
            )
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination.update({prefix + name: tensor for name, tensor in self.to_tensors().items()})

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        names = (*TABLE_TENSORS, *_MODULE_TENSORS)
        rest = {key: value for key, value in state_dict.items() if key not in {prefix + name for name in names}}
        super()._load_from_state_dict(rest, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = {name: state_dict[prefix + name] for name in names if prefix + name in state_dict}
        missing = [prefix + name for name in names if name not in own and name != "max_step"]
        missing_keys.extend(missing)
        if missing:
            return
        try:
            self.from_tensors(own)
        except ValueError as error:
            error_msgs.append(str(error))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a module with rows of its own; collected gradients stay behind, an admission filter is shared."""
        table = Table(self.table.config, admission=self.table.admission)
        table_from_tensors(table, table_to_tensors(self.table))
        memo[id(self.table)] = table
        memo[id(self._gradients)] = []
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__ = copy.deepcopy(self.__dict__, memo)
        return copied

    def __reduce_ex__(self, protocol: object) -> Any:
        """Refuse: a table is saved as tensors, which can run no code when they are loaded."""
        raise TypeError(
            f"table {self.table.config.name!r}: the module cannot be pickled; save its state_dict() or to_tensors(), "
            "copy it with copy.deepcopy()"
        )


class _Rows(torch.autograd.Function):
    """Rows forward; backward hands the gradient, one row per id, to the module."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, module: TableModule, ids: Tensor, plan: native.BatchPlan, unique: bool, number: int
    ) -> Tensor:
        ctx.module, ctx.ids, ctx.plan, ctx.unique, ctx.number = module, ids, plan, unique, number
        return _read(plan, ids, module.dim, unique=unique)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, values: Tensor) -> tuple[None, ...]:
        ctx.module._receive(_Gradient(ctx.number, ctx.ids, values.contiguous(), ctx.plan, ctx.unique))
        return (None,) * 6


def _with_max_step(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with the table's newest step; older ones lack it, and it was the one before the next."""
    return {"max_step": (tensors["global_step"] - 1).clamp(min=0), **tensors}


def _read(plan: native.BatchPlan, ids: Tensor, dim: int, *, unique: bool) -> Tensor:
    out = torch.empty(len(ids), dim)
    if unique:
        plan.lookup_unique(out)
    else:
        plan.lookup(out)
    return out
