"""What the zoo's models of clicks share: 26 categories, 13 numbers, one label."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from monolith.data import CriteoEvents, Pipeline, Source, synthetic
from monolith.embedding import AdagradOptimizer, Optimizer, RandomUniformInitializer
from monolith.model.base import MonolithModel
from monolith.model.hyper_params import InstantiableParams
from monolith.model.modes import Mode
from monolith.model.spec import EstimatorSpec

CATEGORIES = tuple(f"C{number}" for number in range(1, 27))
NUM_DENSE = 13


def tower(in_features: int, widths: Sequence[int]) -> nn.Sequential:
    """Return linear layers of these widths with ReLU between them."""
    layers: list[nn.Module] = []
    for width in widths:
        layers += [nn.Linear(in_features, width), nn.ReLU()]
        in_features = width
    return nn.Sequential(*layers[:-1])


class ClickModel(MonolithModel):
    """Reads `C1` to `C26`, `dense` and `label`; subclasses say what the logit is.

    Without a `source` among its parameters it trains on made-up clicks, `CriteoEvents`.
    """

    def __init__(self, params: Any = None) -> None:
        """Make a table per category; subclasses make layers and then call `make_optimizer`."""
        super().__init__(type(self).params() if params is None else params)
        held = self.settings
        self.dim: int = held.dim
        rule: Optimizer = AdagradOptimizer(held.row_learning_rate, initial_accumulator_value=0.1)
        for name in CATEGORIES:
            self.create_embedding_feature_column(
                name, optimizer=rule, initializer=RandomUniformInitializer(-held.row_scale, held.row_scale)
            )

    @classmethod
    def params(cls) -> InstantiableParams:
        """Return the parameters of the model with their defaults."""
        made = InstantiableParams(cls)
        made.define("name", cls.__name__, "Name of the model.")
        made.define("dim", 16, "Width of a row.")
        made.define("hidden", (256, 64), "Widths of the hidden layers.")
        made.define("row_learning_rate", 0.05, "Of the rows' Adagrad.")
        made.define("row_scale", 0.01, "First values of rows lie within plus and minus this.")
        made.define("learning_rate", 0.01, "Of the dense weights' Adagrad.")
        made.define("source", None, "A function of the mode that returns the source.")
        made.define("batch_size", 512, "Events per batch of made-up clicks.")
        made.define("num_events", 1_000_000, "Made-up clicks for training; a tenth as many for evaluation.")
        return made

    @property
    def settings(self) -> Any:
        """The parameters this model was made with."""
        return self.__dict__["params"]

    def input_fn(self, mode: Mode) -> Source:
        """Return the source among the parameters, or made-up clicks; those of EVAL follow those of TRAIN."""
        held = self.settings
        if held.source is not None:
            source: Source = held.source(mode)
            return source
        events = CriteoEvents(0)
        if mode is Mode.TRAIN:
            return synthetic(events, batch_size=held.batch_size, count=held.num_events)
        count = held.num_events + held.num_events // 10
        made: Pipeline = synthetic(events, batch_size=held.batch_size, count=count)
        made.restore({**made.state(), **_position(made, held.num_events)})
        return made

    def make_optimizer(self) -> None:
        """Make the optimizer of the dense weights, once all layers are there."""
        self.optimizer = torch.optim.Adagrad(self.parameters(), lr=self.settings.learning_rate, fused=True)

    def logit(self, features: dict[str, Any]) -> Tensor:
        """Return the log-odds of a click, [events]; to be overridden."""
        raise NotImplementedError(f"{type(self).__name__} needs a logit(features)")

    def model_fn(self, features: dict[str, Any], mode: Mode) -> EstimatorSpec:
        """Return the chance of a click, and the summed log loss."""
        logit = self.logit(features)
        if mode == Mode.PREDICT:
            return EstimatorSpec(label=None, pred=logit.sigmoid())
        label = features["label"]
        loss = nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="sum")
        return EstimatorSpec(label=label, pred=logit.sigmoid(), loss=loss, optimizer=self.optimizer)


def _position(source: Source, offset: int) -> dict[str, int]:
    """Return the state of a synthetic source at an offset: its one number."""
    return dict.fromkeys(source.state(), offset)
