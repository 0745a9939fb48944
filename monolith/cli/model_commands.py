"""Commands that run a model of one's own. What they do is in `monolith.cli.models`."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand

FLAGS_ARE_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""How typer must treat these commands: all arguments are left to them, `--help` too."""


@dataclass(frozen=True, slots=True)
class _Completion:
    """What typer asks of an item that completes a word."""

    value: str
    help: str
    type: str = "plain"


class ModelCommand(TyperCommand):
    """A command whose flags are not known to typer: shells complete them from the settings."""

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return the flags that begin as typed."""
        if not incomplete.startswith("-"):
            return []
        flags = import_module("monolith.cli.models.flags").COMMANDS[self.name]
        found = import_module("monolith.cli.models.help_page").completions(self.name, flags, incomplete)
        return [_Completion(flag, words) for flag, words in found]


def train(context: typer.Context) -> None:
    """Train a model, or go on training it."""
    _run("train", context)


def launch(context: typer.Context) -> None:
    """Train a model with several processes of this machine."""
    _run("launch", context)


def evaluate(context: typer.Context) -> None:
    """Print loss and metrics of a trained model."""
    _run("evaluate", context)


def predict(context: typer.Context) -> None:
    """Write predictions of a trained model as JSON lines."""
    _run("predict", context)


def export(context: typer.Context) -> None:
    """Write a trained model as a version to serve."""
    _run("export", context)


def _run(command: str, context: typer.Context) -> None:
    """Parse the model and the flags, then load what needs torch: `--help` must not wait for it."""
    model, settings, own = import_module("monolith.cli.models.flags").parse_arguments(command, context.args)
    import_module(f"monolith.cli.models.{command}").run(model, settings, own)
