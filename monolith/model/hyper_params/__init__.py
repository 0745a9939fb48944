"""Named settings of models and layers, and a registry of models that settings can be asked for by name."""

from monolith.model.hyper_params.instantiable import InstantiableParams, params, with_params
from monolith.model.hyper_params.named_model import named_model
from monolith.model.hyper_params.params import Params
from monolith.model.hyper_params.registry import (
    GetAllRegisteredClasses,
    GetClass,
    GetParams,
    RegisterSingleTaskModel,
    SingleTaskModelParams,
)

__all__ = [
    "GetAllRegisteredClasses",
    "GetClass",
    "GetParams",
    "InstantiableParams",
    "Params",
    "RegisterSingleTaskModel",
    "SingleTaskModelParams",
    "named_model",
    "params",
    "with_params",
]
