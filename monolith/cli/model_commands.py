"""Commands that run a model of one's own. What they do is in `monolith.cli.models`."""

from importlib import import_module
from typing import Annotated

import typer

FLAGS_ARE_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""How typer must treat these commands: everything behind the model is left to them, `--help` too."""

Model = Annotated[
    str, typer.Argument(metavar="MODULE:CLASS", help="Where the model's class is; this folder is looked in too.")
]


def train(context: typer.Context, model: Model) -> None:
    """Train a model, MODULE:CLASS, going on from its newest snapshot; flags are the settings of a run."""
    import_module("monolith.cli.models.train").run(model, context.args)


def evaluate(context: typer.Context, model: Model) -> None:
    """Print loss and metrics of a trained model, MODULE:CLASS."""
    import_module("monolith.cli.models.evaluate").run(model, context.args)


def predict(context: typer.Context, model: Model) -> None:
    """Write predictions of a trained model, MODULE:CLASS, as JSON lines."""
    import_module("monolith.cli.models.predict").run(model, context.args)


def export(context: typer.Context, model: Model) -> None:
    """Write a trained model, MODULE:CLASS, as a version that `monolith serve` answers from."""
    import_module("monolith.cli.models.export").run(model, context.args)
