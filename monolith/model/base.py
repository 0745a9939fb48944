"""The model a user writes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from monolith.data import Source
from monolith.embedding import Compressor, Initializer, LearningRate, Optimizer
from monolith.hooks import Hook
from monolith.model.modes import Mode
from monolith.model.plan.feature_column import (
    DEFAULT_COMPRESSOR,
    DEFAULT_FILTER_CAPACITY,
    DEFAULT_INITIALIZER,
    DEFAULT_OPTIMIZER,
    CombinerName,
    FeatureColumn,
)
from monolith.model.plan.slices import SliceReader, SliceRequest
from monolith.model.spec import EstimatorSpec

OutType = Literal["concat", "stack", "add_n", "addn"]
Features = Sequence[str] | Sequence[tuple[str, int]] | Mapping[str, int]
"""Names that share one dim, or names with their dims."""


class MonolithModel(nn.Module):
    """A model whose id features have a row per id; subclass it, and override `input_fn` and `model_fn`.

    Make feature columns, layers and the optimizer of the dense weights in `__init__`. One model object runs in one
    thread at a time; `copy.deepcopy` makes one for another thread.
    """

    def __init__(self, params: Any = None) -> None:
        """Keep `params`, which mean whatever the subclass wants."""
        super().__init__()
        self.params = params
        self.feature_columns: dict[str, FeatureColumn] = {}
        self.slice_reader: SliceReader | None = None
        self.training_hooks: list[Hook] = []
        self._added_losses: list[Tensor] = []

    def input_fn(self, mode: Mode) -> Source:
        """Return the events for this mode; to be overridden."""
        raise NotImplementedError(f"{type(self).__name__} needs an input_fn(mode) that returns a source of batches")

    def model_fn(self, features: dict[str, Any], mode: Mode) -> EstimatorSpec | tuple[Any, Any, Any]:
        """Return predictions, and a loss unless mode is PREDICT, for the columns of a batch; to be overridden.

        `features` has a tensor per column, or a `Ragged` where events differ in how many values they have.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a model_fn(features, mode) that returns EstimatorSpec")

    def add_loss(self, losses: Tensor | Sequence[Tensor]) -> None:
        """Add scalars to the loss of the present call of `model_fn`, such as those of regularisation."""
        self._added_losses.extend([losses] if isinstance(losses, Tensor) else losses)

    def add_training_hook(self, hook: Hook) -> None:
        """Let a hook watch every training run of this model."""
        if not isinstance(hook, Hook):
            raise TypeError(f"a training hook must be a monolith.Hook, got {hook!r}")
        self.training_hooks.append(hook)

    def take_added_losses(self) -> list[Tensor]:
        """Return what `add_loss` got since the last time; called by whoever runs `model_fn`."""
        taken, self._added_losses = self._added_losses, []
        return taken

    def backward(self, loss: Tensor) -> None:
        """Differentiate the loss; a model that has its gradients already overrides this."""
        loss.backward()  # type: ignore[no-untyped-call]

    def dense_step(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Step the dense weights, whose gradients are there."""
        if optimizer is not None:
            optimizer.step()

    def create_embedding_feature_column(
        self,
        feature_name: str,
        *,
        occurrence_threshold: int = 0,
        expire_time: int = 36500,
        filter_capacity: int = DEFAULT_FILTER_CAPACITY,
        max_seq_length: int = 0,
        shared_name: str | None = None,
        combiner: CombinerName | None = None,
        optimizer: Optimizer | None = None,
        initializer: Initializer | None = None,
        compressor: Compressor | None = None,
    ) -> FeatureColumn:
        """Return the column of an id feature and remember it; see `FeatureColumn` for what the arguments mean.

        Without a combiner the rows of an event's ids are summed, or make a sequence if `max_seq_length` is given. With
        `shared_name` the rows are those of that feature, and live by what was said of it; it is created if it is not
        there. A second call for the same name must say the same.
        """
        if shared_name is not None and shared_name != feature_name:
            self._own_table(feature_name, shared_name)
        column = FeatureColumn(
            name=feature_name,
            occurrence_threshold=occurrence_threshold,
            expire_time=expire_time,
            filter_capacity=filter_capacity,
            combiner=combiner or ("first_n" if max_seq_length else "reduce_sum"),
            max_seq_length=max_seq_length,
            shared_name=None if shared_name == feature_name else shared_name,
            optimizer=optimizer or DEFAULT_OPTIMIZER,
            initializer=initializer or DEFAULT_INITIALIZER,
            compressor=compressor or DEFAULT_COMPRESSOR,
        )
        known = self.feature_columns.setdefault(feature_name, column)
        if known != column:
            raise ValueError(f"feature {feature_name!r} was created before as {known}, now as {column}; create it once")
        return known

    @overload
    def lookup_embedding_slice(
        self,
        features: Features,
        slice_name: str = ...,
        slice_dim: int | None = ...,
        initializer: Initializer | None = ...,
        optimizer: Optimizer | None = ...,
        compressor: Compressor | None = ...,
        learning_rate_fn: LearningRate | None = ...,
        *,
        out_type: None = ...,
    ) -> list[Tensor]: ...

    @overload
    def lookup_embedding_slice(
        self,
        features: Features,
        slice_name: str = ...,
        slice_dim: int | None = ...,
        initializer: Initializer | None = ...,
        optimizer: Optimizer | None = ...,
        compressor: Compressor | None = ...,
        learning_rate_fn: LearningRate | None = ...,
        *,
        out_type: OutType,
    ) -> Tensor: ...

    def lookup_embedding_slice(
        self,
        features: Features,
        slice_name: str = "vec",
        slice_dim: int | None = None,
        initializer: Initializer | None = None,
        optimizer: Optimizer | None = None,
        compressor: Compressor | None = None,
        learning_rate_fn: LearningRate | None = None,
        *,
        out_type: OutType | None = None,
    ) -> list[Tensor] | Tensor:
        """Return a slice of each feature, [events, dim] or [events, length, dim] each; for use inside `model_fn`.

        Args:
            features: names that share `slice_dim`; or {name: dim}, or a list of (name, dim).
            slice_name: rows of a feature consist of slices; each has its dim, optimizer and initializer.
            slice_dim: width of the slice.
            initializer: first values; by default those of the feature's column.
            optimizer: how gradients change the slice; by default that of the feature's column.
            compressor: how the slice is stored for serving; by default that of the feature's column.
            learning_rate_fn: a number or a `PolynomialDecay`, instead of the optimizer's own rate.
            out_type: None for a list; "concat" or "stack" along dimension 1; "add_n" for the sum.
        """
        if self.slice_reader is None:
            raise RuntimeError("lookup_embedding_slice works inside model_fn only, while a plan or a batch is at hand")
        tensors = [
            self.slice_reader.read(
                SliceRequest(self._column(name), slice_name, dim, optimizer, initializer, compressor, learning_rate_fn)
            )
            for name, dim in _with_dims(features, slice_dim)
        ]
        return tensors if out_type is None else _combine(tensors, out_type)

    def _own_table(self, feature_name: str, shared_name: str) -> None:
        if self._column(shared_name).shared_name is not None:
            raise ValueError(
                f"{feature_name} shared embedding with {shared_name}, so {shared_name} should create first! It shares "
                f"the table of {self._column(shared_name).table} itself: name that one"
            )

    def _column(self, name: str) -> FeatureColumn:
        return self.feature_columns.get(name) or self.create_embedding_feature_column(name)


def _with_dims(features: Features, slice_dim: int | None) -> list[tuple[str, int]]:
    items = list(features.items()) if isinstance(features, Mapping) else list(features)
    if isinstance(features, str) or not items:
        raise ValueError(f"ValueError for features: need a list of names, or names with dims, got {features!r}")
    pairs: list[tuple[str, int]] = []
    for item in items:
        name, dim = (item, slice_dim) if isinstance(item, str) else item
        if not isinstance(name, str) or not isinstance(dim, int) or dim <= 0:
            raise ValueError(
                f"ValueError for features: {item!r} needs a name and a positive dim, got slice_dim={dim!r}"
            )
        pairs.append((name, dim))
    return pairs


def _combine(tensors: list[Tensor], out_type: OutType) -> Tensor:
    if out_type == "concat":
        return torch.cat(tensors, dim=1)
    if out_type == "stack":
        return torch.stack(tensors, dim=1)
    if out_type in ("add_n", "addn"):
        return torch.stack(tensors).sum(0)
    raise ValueError(f"out_type must be None, 'concat', 'stack' or 'add_n', got {out_type!r}")
