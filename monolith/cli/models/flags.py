"""Commands whose flags are the settings of a run: parsed by `monolith.train.config`, shown by `--help`."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any

import typer
from rich.table import Table

from monolith.cli.console import console
from monolith.train.config import RunnerConfig, flag_kinds, parse_flags, setting, setting_help

Flags = tuple[dict[str, Any], dict[str, Any]]

_HELP = ("--help", "-h")
_WHAT = {
    "train": "Train a model, going on from the newest snapshot in model_dir.",
    "evaluate": "Print loss and metrics of the newest snapshot in model_dir on the events for EVAL.",
    "predict": "Write predictions of the newest snapshot in model_dir for the events for PREDICT, as JSON lines.",
}


@dataclass(kw_only=True)
class ModelFlags(RunnerConfig):
    """Flags that all commands with a model have besides the settings."""

    params: str | None = setting(None, "JSON value that the model's class is called with.")


def parse_arguments(command: str, model: str, arguments: Sequence[str], flags: type) -> Flags:
    """Return (the settings, the command's own flags) that the arguments say; `--help` prints all flags and ends.

    `flags` is a subclass of RunnerConfig: what it adds are the command's own flags.
    """
    if model in _HELP or any(one in _HELP for one in arguments):
        _print_help(command, flags)
        raise typer.Exit
    if model.startswith("-"):
        raise ValueError(f"the model comes first: monolith {command} MODULE:CLASS {model} ...; --help lists the flags")
    found = parse_flags(arguments, flags)
    known = flag_kinds(RunnerConfig)
    settings = {name: value for name, value in found.items() if name in known}
    defaults = {one.name: one.default for one in fields(flags) if one.name not in known and one.init}
    return settings, {**defaults, **{name: value for name, value in found.items() if name not in known}}


def _print_help(command: str, flags: type) -> None:
    console.print(
        f"Usage: monolith {command} MODULE:CLASS [FLAGS]\n\n{_WHAT[command]}\n", markup=False, highlight=False
    )
    described, kinds = setting_help(flags), flag_kinds(flags)
    general = set(setting_help(RunnerConfig))
    defaults = {one.name: one.default for one in fields(flags)}
    for title, names in (
        (f"Flags of {command}", [name for name in described if name not in general]),
        ("Settings", [name for name in described if name in general]),
    ):
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True, style="bold")
        table.add_column()
        for name in names:
            table.add_row(f"--{name} {_kind(kinds[name])}".rstrip(), _escaped(described[name], defaults[name]))
        console.print(table)
        console.print()


def _kind(kind: type) -> str:
    return "" if kind is bool else "TEXT" if issubclass(kind, Enum) or kind.__name__ == "str" else kind.__name__.upper()


def _escaped(words: str, default: Any) -> str:
    if default not in (None, "", False, MISSING):
        shown = default.name.lower() if isinstance(default, Enum) else "yes" if default is True else default
        words = f"{words} [default: {shown}]"
    return words.replace("[", r"\[")
