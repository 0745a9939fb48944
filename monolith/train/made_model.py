"""How a run makes its model, after seeding and with the parameters that its settings override, and its source."""

import json
from typing import Any

import torch

from monolith.data import Source
from monolith.data.input_config import InputConfig, input_settings
from monolith.model import Mode, MonolithModel
from monolith.model.hyper_params import InstantiableParams, Params, named_model
from monolith.model.hyper_params.named_model import class_of
from monolith.model.native_task import NativeTask

ModelLike = type[MonolithModel] | MonolithModel | InstantiableParams


def chosen_model(model: ModelLike | None, task: str | None) -> ModelLike:
    """Return the model that was given, or else the one that the setting `task` names; both must be of one class."""
    if task is None:
        if model is None:
            raise ValueError("there is no model: pass one, or name one with task, such as task='ranking:Ranking'")
        return model
    named: ModelLike = named_model(task)
    if model is not None and class_of(model) is not class_of(named):
        raise ValueError(
            f"task={task!r} names {class_of(named).__name__}, and the model that was given is a "
            f"{class_of(model).__name__}; leave one of them out"
        )
    return named if model is None else model


def make_model(model: ModelLike, params: Any, *, seed: int | None, override: str | None) -> MonolithModel:
    """Return the model: itself, or made from its class or parameters after seeding.

    `override`, a JSON object, replaces parameters before the model is made. A model that already exists is made again
    from its own parameters. An unknown name raises a ValueError.
    """
    values = _parsed(override)
    if isinstance(model, MonolithModel) and values:
        params, model = model.params, type(model)
    if seed is not None and not isinstance(model, MonolithModel):
        torch.manual_seed(seed)
    if isinstance(model, InstantiableParams):
        made = _overridden(model, values).instantiate()
    elif isinstance(model, type):
        if params is None and issubclass(model, NativeTask):
            params = model.params()  # a task knows its own parameters
        made = model(_overridden(params, values))
    else:
        made = model
    if not isinstance(made, MonolithModel):
        raise TypeError(f"an Estimator takes a MonolithModel, its class or its parameters, got {model!r}")
    return made


def make_source(model: MonolithModel, mode: Mode, config: InputConfig) -> Source:
    """Return where a model reads the events of a mode; its `input_fn` sees the settings of the data."""
    with input_settings(config):
        source = model.input_fn(mode)
    if not hasattr(source, "schema"):
        raise TypeError(
            f"{type(model).__name__}.input_fn must return a source, such as monolith.data.csv(...), got {source!r}"
        )
    return source


def _overridden(params: Any, values: dict[str, Any]) -> Any:
    if not values:
        return params
    if isinstance(params, Params):
        try:
            return params.copy().set(**values)
        except (AttributeError, KeyError) as error:
            raise ValueError(f"params_override: {error}") from error
    if not isinstance(params, dict):
        raise ValueError(f"params_override changes the parameters of a model, and this one has {params!r}")
    if unknown := sorted(set(values) - set(params)):
        raise ValueError(f"params_override: there is no parameter {unknown[0]!r}; the model has {', '.join(params)}")
    return {**params, **values}


def _parsed(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("it is not an object")
    except ValueError as error:
        raise ValueError(f'params_override must be a JSON object such as {{"units": 8}}, got {text!r}') from error
    return values
