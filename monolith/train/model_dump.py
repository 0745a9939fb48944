"""DumpUtils: the definition of a trained model as JSON, to read it or to make the model again."""

import json
import os
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from monolith.checkpoint.format.durable_files import write_durably
from monolith.embedding import TableConfig
from monolith.model import LookupPlan, MonolithModel
from monolith.model.hyper_params import Params
from monolith.train.config import RunnerConfig
from monolith.train.config.runner_config import runner_defaults

MODEL_DUMP_NAME: Final = "model_dump"
DUMP_FORMAT = 1


class DumpUtils:
    """Records the definition of a model: where its class is, its parameters, its lookup plan, the settings of the run.

    The original freezes the model's graph and trains on without the user's code. Here the code is needed: the class
    must be importable by its path, and its parameters must be JSON values; what is not is left out, and
    `restrictions` says what. Hooks, the source of the events and learning rates made in code are not recorded.

    >>> DumpUtils().has_collected
    False
    """

    def __init__(self, enable: bool = False) -> None:
        """Record nothing unless enabled."""
        self.enable = enable
        self._values: dict[str, Any] = {}

    @property
    def has_collected(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._values)

    @property
    def restrictions(self) -> list[str]:
        """What could not be recorded, in words."""
        return list(self._values.get("restrictions", []))

    def record_params(self, model: MonolithModel) -> None:
        """Record where the model's class is, and the parameters it was made with."""
        if not self.enable:
            return
        kind = type(model)
        self._values["model"] = f"{kind.__module__}:{kind.__qualname__}"
        if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
            self._restrict(f"{kind.__qualname__} is defined in {kind.__module__}, from where it cannot be imported")
        held = getattr(model, "p", None) or model.params
        params = {name: value for name, value in held.iter_params()} if isinstance(held, Params) else held
        try:
            self._values["params"] = json.loads(json.dumps(params))
        except (TypeError, ValueError) as error:
            self._restrict(f"params are no JSON values: {error}")

    def add_config(self, config: RunnerConfig) -> None:
        """Record the settings, and which of them were changed."""
        if not self.enable:
            return
        recorded = {one.name: _plain(getattr(config, one.name)) for one in fields(config) if one.init}
        self._values["config"] = {name: value for name, value in recorded.items() if _is_json(value)}
        self._values["changed"] = [
            name for name, default in runner_defaults().items() if getattr(config, name) != default
        ]
        for name in set(recorded) - set(self._values["config"]):
            self._restrict(f"setting {name} is code")

    def add_user_params(self, params: Mapping[str, Any]) -> None:
        """Record further values of the user's."""
        if self.enable:
            self._values["user_params"] = json.loads(json.dumps(dict(params)))

    def add_plan(self, plan: LookupPlan) -> None:
        """Record what the model looks up."""
        if self.enable:
            self._values["plan"] = json.loads(plan.to_json())

    def dump(self, fname: str | os.PathLike[str]) -> None:
        """Write what was recorded; nothing, if nothing was."""
        if self.has_collected:
            values = {"format": DUMP_FORMAT, **self._values}
            write_durably(Path(fname), json.dumps(values, indent=1, sort_keys=True).encode())

    def load(self, fname: str | os.PathLike[str]) -> None:
        """Become what was written; a file that is no dump is a ValueError."""
        try:
            values = json.loads(Path(fname).read_bytes())
            if values.pop("format") != DUMP_FORMAT:
                raise ValueError(f"its format is not {DUMP_FORMAT}")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"{fname} is no model dump ({type(error).__name__}: {error})") from error
        self.enable = True
        self._values = values

    def get_config(self) -> dict[str, Any]:
        """Return the settings."""
        return dict(self._found("config"))

    def get_changed(self) -> list[str]:
        """Return the names of settings that were not at their default."""
        return list(self._found("changed"))

    def get_user_params(self) -> dict[str, Any]:
        """Return the further values of the user's."""
        return dict(self._values.get("user_params", {}))

    def restore_params(self) -> Any:
        """Return the parameters the model was made with."""
        return self._found("params")

    def plan(self) -> LookupPlan:
        """Return what the model looks up."""
        return LookupPlan.from_json(json.dumps(self._found("plan")))

    def restore_model(self) -> MonolithModel:
        """Return a new model of the recorded class and parameters; importing a class runs its module's code."""
        module, _, name = self._found("model").partition(":")
        made = getattr(import_module(module), name)(self.restore_params())
        if not isinstance(made, MonolithModel):
            raise ValueError(f"{module}:{name} is no MonolithModel any more")
        return made

    @property
    def table_configs(self) -> dict[str, TableConfig]:
        """Configuration of each table."""
        return self.plan().tables()

    @property
    def feature_slice_dims(self) -> dict[str, list[int]]:
        """Widths of the slices that each feature reads, in order."""
        found: dict[str, list[int]] = {}
        for feature, _, dim in self.plan().entries:
            found.setdefault(feature, []).append(dim)
        return found

    @property
    def feature_combiners(self) -> dict[str, str]:
        """How the rows of one event's ids are combined, by feature."""
        return {feature.name: feature.combiner for feature in self.plan().features}

    def _found(self, name: str) -> Any:
        if name not in self._values:
            why = "; ".join(self.restrictions) or "it was not recorded"
            raise ValueError(f"this model dump has no {name}: {why}")
        return self._values[name]

    def _restrict(self, words: str) -> None:
        self._values.setdefault("restrictions", []).append(words)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name.lower()
    return str(value) if isinstance(value, Path) else value


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def dump_model(folder: Path, model: MonolithModel, config: RunnerConfig, plan: LookupPlan) -> None:
    """Write the definition of a model to the file `model_dump` of a folder."""
    dump = DumpUtils(enable=True)
    dump.record_params(model)
    dump.add_config(config)
    dump.add_plan(plan)
    dump.dump(folder / MODEL_DUMP_NAME)
