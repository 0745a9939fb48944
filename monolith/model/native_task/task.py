"""NativeTask: a model that makes its own feature slots and applies its own gradients."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from monolith.data import Source
from monolith.hooks import Hook
from monolith.model.base import MonolithModel
from monolith.model.hyper_params import InstantiableParams, Params
from monolith.model.modes import Mode
from monolith.model.native_task.feature import FeatureSlot, FeatureSlotConfig
from monolith.model.plan.feature_column import FeatureColumn
from monolith.model.plan.slices import SliceReader
from monolith.model.serving_inputs import ServingInputReceiver, ServingInputReceiverFn
from monolith.model.spec import EstimatorSpec, Heads

InputFn = Callable[[], Source]
TaskModelFn = Callable[[dict[str, Any], Mode, Any], "TaskSpec"]


class TaskSpec(NamedTuple):
    """What a task's model function says about one batch."""

    predictions: Heads
    """What the model expects."""

    loss: Tensor | None = None
    """A scalar; it is differentiated unless the task applied gradients itself."""

    label: Heads | None = None
    """What was observed, for metrics."""

    optimizer: torch.optim.Optimizer | None = None
    """Of the dense weights; its state is part of every snapshot."""

    train_step: Callable[[], None] | None = None
    """Called after the rows were updated, instead of the optimizer's step."""

    hooks: tuple[Hook, ...] = ()
    """Watch the run; those of the first call count."""


class NativeContext:
    """What a task's model function makes slots with."""

    def __init__(self, task: "NativeTask") -> None:
        """Belong to a task."""
        self._task = task
        self._slots: dict[str, FeatureSlot] = {}
        self.applied_gradients = False

    @property
    def reader(self) -> SliceReader:
        """Answers lookups while the model function runs."""
        if self._task.slice_reader is None:
            raise RuntimeError("rows can be looked up inside the model function only, while a plan or a batch is there")
        return self._task.slice_reader

    def create_feature_slot(self, config: FeatureSlotConfig) -> FeatureSlot:
        """Return a new slot; a second one of the same name in one call is a ValueError."""
        slot = FeatureSlot(self, config)
        if slot.name in self._slots:
            raise ValueError(f"Duplicate names for the table. Name: {slot.name}")
        self._slots[slot.name] = slot
        # The slot decides size, admission and expiry of its table's rows.
        self._task.feature_columns[slot.name] = FeatureColumn(
            name=slot.name,
            occurrence_threshold=config.occurrence_threshold,
            expire_time=config.expire_time,
            evict_every_hours=config.hashtable_config.feature_evict_every_n_hours,
            initial_capacity=config.hashtable_config.initial_capacity,
            extra_restore_names=config.extra_restore_names,
        )
        return slot

    def apply_embedding_gradients(
        self, grads_and_vars: Iterable[tuple[Tensor | None, Tensor]], scale: float = 1
    ) -> None:
        """Step the rows with these gradients of looked-up slices, instead of the loss's gradients."""
        for gradient, rows in grads_and_vars:
            if gradient is not None:
                part = gradient.detach() * scale
                rows.grad = part if rows.grad is None else rows.grad + part
        self.applied_gradients = True

    def begin_call(self) -> None:
        """Forget the slots and gradients of the call before."""
        self._slots.clear()
        self.applied_gradients = False


class NativeTask(MonolithModel):
    """A model with its own input and model functions; override `create_input_fn` and `create_model_fn`.

    >>> NativeTask.params().train.label_key
    'label'
    """

    def __init__(self, params: Any = None) -> None:
        """Take parameters as `params()` gives them."""
        super().__init__(type(self).params() if params is None else params)
        self.ctx = NativeContext(self)
        self._model_fn: tuple[int, TaskModelFn] | None = None
        self._train_step: Callable[[], None] | None = None

    @property
    def p(self) -> Any:
        """The parameters this task was made with."""
        return self.__dict__["params"]

    @classmethod
    def params(cls) -> InstantiableParams:
        """Return the parameters of a task with their defaults."""
        made = InstantiableParams(cls)
        made.define("name", cls.__name__, "Name of the task.")
        made.define("mode", "train", "train, eval or infer.")
        made.define("accelerator", None, "Unused.")
        for group, values in _DEFAULTS.items():
            inner = Params()
            for name, value in values.items():
                inner.define(name, value, name)
            made.define(group, inner, group)
        return made

    def create_input_fn(self, mode: Mode) -> InputFn:
        """Return a function that returns the source of a mode; to be overridden."""
        raise NotImplementedError(f"{type(self).__name__} needs a create_input_fn(mode)")

    def create_model_fn(self) -> TaskModelFn:
        """Return a function of (features, mode, config) that returns a `TaskSpec`; to be overridden."""
        raise NotImplementedError(f"{type(self).__name__} needs a create_model_fn()")

    def create_serving_input_receiver_fn(self) -> ServingInputReceiverFn:
        """Return a function that says what requests to an export have; by default the columns of the source."""
        return super().serving_input_receiver_fn

    def serving_input_receiver_fn(self) -> ServingInputReceiver | None:
        """Return what requests to an export have, as the task's own function says."""
        function = self.create_serving_input_receiver_fn()
        if not callable(function):
            raise ValueError(
                f"{type(self).__name__}.create_serving_input_receiver_fn must return a function without arguments, got "
                f"{function!r}; leave it out to serve the columns of the source"
            )
        return function()

    def input_fn(self, mode: Mode) -> Source:
        """Return the source of a mode."""
        return self.create_input_fn(mode)()

    def model_fn(self, features: dict[str, Any], mode: Mode) -> EstimatorSpec:
        """Return what the task's model function says."""
        # The function knows its task, so that of a task this one was copied from will not do.
        if self._model_fn is None or self._model_fn[0] != id(self):
            self._model_fn = (id(self), self.create_model_fn())
        self.ctx.begin_call()
        spec = self._model_fn[1](features, mode, None)
        self._train_step = spec.train_step
        for hook in spec.hooks if not self.training_hooks else ():
            self.add_training_hook(hook)
        return EstimatorSpec(label=spec.label, pred=spec.predictions, loss=spec.loss, optimizer=spec.optimizer)

    def backward(self, loss: Tensor) -> None:
        """Differentiate the loss, unless the task applied gradients itself."""
        if not self.ctx.applied_gradients:
            super().backward(loss)

    def dense_step(self, optimizer: torch.optim.Optimizer | None) -> None:
        """Step the dense weights as the task wants."""
        if self._train_step is not None:
            self._train_step()
        else:
            super().dense_step(optimizer)


_DEFAULTS: dict[str, dict[str, Any]] = {
    "metrics": {
        "enable_deep_insight": False,
        "deep_insight_target": "ctr_head",
        "deep_insight_name": None,
        "deep_insight_sample_ratio": 0.01,
        "extra_fields_keys": [],
        "enable_throughput_hook": True,
        "enable_kafka_metrics": False,
        "enable_tf2_profiler_hook": True,
        "enable_file_metrics": False,
        "file_base_name": "deep_insight_results",
        "file_ext": "txt",
        "parse_fn": None,
        "key_fn": None,
        "layout_fn": None,
        "dump_filename": "",
        "use_data_service": False,
    },
    "train": {
        "steps": None,
        "max_steps": None,
        "per_replica_batch_size": None,
        "file_pattern": None,
        "repeat": False,
        "label_key": "label",
        "save_checkpoints_steps": None,
        "save_checkpoints_secs": None,
        "dense_only_save_checkpoints_steps": None,
        "dense_only_save_checkpoints_secs": None,
        "max_pending_seconds_for_barrier": 30,
        "slow_start_steps": 0,
        "sample_bias": 0.0,
        "use_gpu_emb_table": False,
        "use_fountain": False,
        "fountain_zk_host": "",
        "fountain_model_name": "",
        "fountain_parse_on_server": False,
        "fountain_precompute_value_rowids": False,
    },
    "eval": {"per_replica_batch_size": None, "steps": None, "steps_per_eval": 10000},
    "input": {"eval_examples": None, "train_examples": None},
    "serving": {
        "export_with_gpu_allowed": False,
        "export_with_cleared_entry_devices": False,
        "export_when_saving": False,
        "export_dir_base": "exported_models",
        "export_mode": "distributed",
        "shared_embedding": True,
        "with_remote_gpu": False,
    },
}
