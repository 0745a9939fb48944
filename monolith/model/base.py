"""The model a user writes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from monolith.data import Source
from monolith.embedding import Compressor, Initializer, LearningRate, Optimizer
from monolith.hooks import Hook
from monolith.model.extra_outputs import SERVING_DEFAULT, ExtraOutputs
from monolith.model.modes import Mode
from monolith.model.plan.feature_column import (
    DEFAULT_COMPRESSOR,
    DEFAULT_FILTER_CAPACITY,
    DEFAULT_INITIALIZER,
    DEFAULT_OPTIMIZER,
    CombinerName,
    FeatureColumn,
)
from monolith.model.plan.feature_groups import FeatureKey, Features, OutType, combine, feature_groups, name_of_feature
from monolith.model.plan.slices import SliceReader, SliceRequest
from monolith.model.serving_inputs import ServingInputReceiver
from monolith.model.spec import EstimatorSpec


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
        self.layout_dict: dict[str, tuple[tuple[tuple[FeatureKey, str, int], ...], OutType | None]] = {}
        self.slice_reader: SliceReader | None = None
        self.training_hooks: list[Hook] = []
        self._added_losses: list[Tensor] = []
        self._extra_outputs: dict[str, ExtraOutputs] = {}

    def __getattr__(self, name: str) -> Any:
        """Return a layer or weight; say what is wrong where `__init__` of this class has not run."""
        self._check_made()
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep a value, which may be a layer once `__init__` of this class has run."""
        if isinstance(value, nn.Module | nn.Parameter):
            self._check_made()
        super().__setattr__(name, value)

    def _check_made(self) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__}.__init__ has not called super().__init__(params) yet; make that its first line"
            )

    def input_fn(self, mode: Mode) -> Source:
        """Return the events for this mode; to be overridden."""
        raise NotImplementedError(f"{type(self).__name__} needs an input_fn(mode) that returns a source of batches")

    def model_fn(self, features: dict[str, Any], mode: Mode) -> EstimatorSpec | tuple[Any, Any, Any]:
        """Return predictions, and a loss unless mode is PREDICT, for the columns of a batch; to be overridden.

        `features` has a tensor per column, or a `Ragged` where events differ in how many values they have.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a model_fn(features, mode) that returns EstimatorSpec")

    def serving_input_receiver_fn(self) -> ServingInputReceiver | None:
        """Return what requests to an export have; None, unless overridden, for the columns of the training source."""
        return None

    def add_loss(self, losses: Tensor | Sequence[Tensor]) -> None:
        """Add scalars to the loss of the present call of `model_fn`, such as those of regularisation."""
        self._added_losses.extend([losses] if isinstance(losses, Tensor) else losses)

    def add_training_hook(self, hook: Hook) -> None:
        """Let a hook watch every training run of this model."""
        if not isinstance(hook, Hook):
            raise TypeError(f"a training hook must be a monolith.Hook, got {hook!r}")
        self.training_hooks.append(hook)

    def add_extra_output(
        self,
        name: str,
        outputs: Tensor | Mapping[str, Tensor],
        head_name: str | None = None,
        head_type: str | None = None,
    ) -> None:
        """Add predictions beside those of the spec, for `predict` and exports; a name that is taken is a KeyError.

        In an export, `name` is a signature that clients can ask for, with these outputs alone. A single tensor is
        called `head_name` there, or `name` without one. `predict` has all outputs: those of a mapping as "name/key".
        `head_name` and `head_type` are also in the metadata of the export.
        """
        if name in self._extra_outputs or name == SERVING_DEFAULT:
            raise KeyError(f"key {name} exists!")
        parts = dict(outputs) if isinstance(outputs, Mapping) else {head_name or name: outputs}
        if not parts:
            raise ValueError(f"the extra output {name!r} has no tensors; add at least one")
        self._extra_outputs[name] = ExtraOutputs(outputs=parts, head_name=head_name, head_type=head_type)

    def take_extra_outputs(self) -> dict[str, ExtraOutputs]:
        """Return what `add_extra_output` got since the last time; the caller of `model_fn` calls it."""
        taken, self._extra_outputs = self._extra_outputs, {}
        return taken

    def take_added_losses(self) -> list[Tensor]:
        """Return what `add_loss` got since the last time; the caller of `model_fn` calls it."""
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
        feature_name: FeatureKey,
        *,
        occurrence_threshold: int = 0,
        expire_time: int = 36500,
        evict_every_hours: int = 0,
        initial_capacity: int = 1,
        filter_capacity: int = DEFAULT_FILTER_CAPACITY,
        max_seq_length: int = 0,
        shared_name: str | None = None,
        extra_restore_names: Sequence[str] = (),
        combiner: CombinerName | None = None,
        optimizer: Optimizer | None = None,
        initializer: Initializer | None = None,
        compressor: Compressor | None = None,
    ) -> FeatureColumn:
        """Return the column of an id feature and remember it; see `FeatureColumn` for what the arguments mean.

        Without a combiner the rows of an event's ids are summed, or make a sequence if `max_seq_length` is given. With
        `shared_name` the feature uses the rows of that feature, with its admission and expiry; that feature is created
        if it does not exist. A second call for the same name must pass the same arguments.
        """
        name = name_of_feature(feature_name)
        if shared_name is not None and shared_name != name:
            self._own_table(name, shared_name)
        column = FeatureColumn(
            name=name,
            occurrence_threshold=occurrence_threshold,
            expire_time=expire_time,
            evict_every_hours=evict_every_hours,
            initial_capacity=initial_capacity,
            filter_capacity=filter_capacity,
            combiner=combiner or ("first_n" if max_seq_length else "reduce_sum"),
            max_seq_length=max_seq_length,
            shared_name=None if shared_name == name else shared_name,
            extra_restore_names=extra_restore_names,  # type: ignore[arg-type]  # it makes a tuple of them
            optimizer=optimizer or DEFAULT_OPTIMIZER,
            initializer=initializer or DEFAULT_INITIALIZER,
            compressor=compressor or DEFAULT_COMPRESSOR,
        )
        known = self.feature_columns.setdefault(name, column)
        if known != column:
            raise ValueError(f"feature {name!r} was created before as {known}, now as {column}; create it once")
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
        group_out_type: Literal["add_n", "concat"] = ...,
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
        group_out_type: Literal["add_n", "concat"] = ...,
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
        group_out_type: Literal["add_n", "concat"] = "add_n",
        out_type: OutType | None = None,
    ) -> list[Tensor] | Tensor:
        """Return a slice of each feature, [events, dim] or [events, length, dim] each; for use inside `model_fn`.

        Args:
            features: names (or numbers of slots) that share `slice_dim`; or {name: dim}, or a list of (name, dim); or a
                list of lists, the groups.
            slice_name: rows of a feature consist of slices; each has its dim, optimizer and initializer.
            slice_dim: width of the slice.
            initializer: first values; by default those of the feature's column.
            optimizer: how gradients change the slice; by default that of the feature's column.
            compressor: how the slice is stored for serving; by default that of the feature's column.
            learning_rate_fn: a number or a `PolynomialDecay`, instead of the optimizer's own rate.
            group_out_type: what becomes of a group: the sum of its features, or all of them side by side.
            out_type: None for a list; "concat" or "stack" along dimension 1; "add_n" for the sum.
        """
        if self.slice_reader is None:
            raise RuntimeError("lookup_embedding_slice works inside model_fn only, while a plan or a batch is at hand")
        reader, rules = self.slice_reader, (optimizer, initializer, compressor, learning_rate_fn)
        groups = [
            [SliceRequest(self._column(name), slice_name, dim, *rules) for name, dim in group]
            for group in feature_groups(features, slice_dim)
        ]
        if out_type is not None and all(len(group) == 1 for group in groups):
            return reader.join([group[0] for group in groups], out_type)
        tensors = [reader.read(group[0]) if len(group) == 1 else reader.join(group, group_out_type) for group in groups]
        return tensors if out_type is None else combine(tensors, out_type)

    def add_layout(
        self, name: str, slice_list: Sequence[tuple[FeatureKey, str, int]], out_type: OutType | None = None
    ) -> None:
        """Name a tensor, or a list of them, made of (feature, slice, dim); `get_layout` returns it in `model_fn`.

        Args:
            name: what it is called; a name that is taken is a KeyError.
            slice_list: slices of any features, in the order of the tensor.
            out_type: None for a list; "concat" or "stack" along dimension 1; "add_n" for the sum.
        """
        if name in self.layout_dict:
            raise KeyError(f"key {name} exists! Give each layout a name of its own")
        if not slice_list:
            raise ValueError(f"layout {name!r} has no slices")
        self.layout_dict[name] = (tuple(slice_list), out_type)

    def get_layout(self, name: str) -> list[Tensor] | Tensor:
        """Return the tensors of a layout that `add_layout` named; for use inside `model_fn`."""
        if self.slice_reader is None:
            raise RuntimeError("get_layout works inside model_fn only, while a plan or a batch is at hand")
        if name not in self.layout_dict:
            raise KeyError(f"there is no layout {name!r}; add_layout made {', '.join(self.layout_dict) or 'none'}")
        slices, out_type = self.layout_dict[name]
        requests = [SliceRequest(self._column(name_of_feature(one)), part, dim) for one, part, dim in slices]
        if out_type is None:
            return [self.slice_reader.read(one) for one in requests]
        return self.slice_reader.join(requests, out_type)

    def _own_table(self, feature_name: str, shared_name: str) -> None:
        if self._column(shared_name).shared_name is not None:
            raise ValueError(
                f"{feature_name} shared embedding with {shared_name}, so {shared_name} should create first! It shares "
                f"the table of {self._column(shared_name).table} itself: name that one"
            )

    def _column(self, name: str) -> FeatureColumn:
        return self.feature_columns.get(name) or self.create_embedding_feature_column(name)
