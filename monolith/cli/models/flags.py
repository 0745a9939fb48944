"""Commands whose flags are the settings of a run: parsed by `monolith.train.config`, shown by `--help`."""

import textwrap
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any

import typer

from monolith.cli.console import console
from monolith.train.config import RunnerConfig, flag_kinds, parse_flags, setting, setting_help

Flags = tuple[dict[str, Any], dict[str, Any]]

_FLAG_WIDTH = 34
_HELP = ("--help", "-h")
_WHAT = {
    "train": "Train a model, going on from the newest snapshot in model_dir.",
    "evaluate": "Print loss and metrics of the newest snapshot in model_dir on the events for EVAL.",
    "export": "Write a version to serve, of the newest snapshot in model_dir; `monolith serve` answers from it.",
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
        (f"Flags of {command}:", [name for name in described if name not in general]),
        ("Settings (--noNAME turns off what is a yes by default):", [name for name in described if name in general]),
    ):
        lines = [_described(f"--{name} {_kind(kinds[name])}", described[name], defaults[name]) for name in names]
        console.print("\n".join([title, *lines, ""]), soft_wrap=True, markup=False, highlight=False)


def _described(flag: str, words: str, default: Any) -> str:
    """Return a flag and, beside it or below if it is long, what it means."""
    if default not in (None, "", False, MISSING):
        shown = default.name.lower() if isinstance(default, Enum) else "yes" if default is True else default
        words = f"{words} [default: {shown}]"
    width, indent = max(60, min(console.width, 120)), " " * _FLAG_WIDTH
    beside = f"  {flag}".ljust(_FLAG_WIDTH)
    first = beside if len(beside) == _FLAG_WIDTH else f"{beside}\n{indent}"
    return first + f"\n{indent}".join(textwrap.wrap(words, width - _FLAG_WIDTH))


def _kind(kind: type) -> str:
    return "" if kind is bool else "TEXT" if issubclass(kind, Enum) or kind.__name__ == "str" else kind.__name__.upper()
