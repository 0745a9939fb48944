"""What `--help` and `--help-all` of a command with a model show: the flags that people use, or all of them."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

from monolith.cli.console import console
from monolith.train.config import RunnerConfig, flag_kinds, flag_name, setting_help
from monolith.train.config.unread import UNREAD

_FLAG_WIDTH = 34
_WHAT = {
    "train": "Train a model; go on from the newest snapshot in its folder.",
    "launch": "Train a model with several processes of this machine: parameter servers, a chief and workers.",
    "evaluate": "Print loss and metrics of the newest snapshot, for the events of EVAL.",
    "predict": "Write predictions of the newest snapshot as JSON lines, for the events of PREDICT.",
    "export": "Write the newest snapshot as a version that `monolith serve` answers from.",
}
_EXAMPLE = {
    "train": "monolith train ranking:Ranking --model-dir model --max-steps 1000",
    "launch": "monolith launch ranking:Ranking --model-dir model --num-ps 2 --num-workers 2",
    "evaluate": "monolith evaluate ranking:Ranking --model-dir model",
    "predict": "monolith predict ranking:Ranking --model-dir model --output predictions.jsonl",
    "export": "monolith export ranking:Ranking --model-dir model",
}
_DATA = ("input_path", "kafka_topics", "kafka_servers", "kafka_group_id")
_GROUPS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "train": {
        "Model and data": ("model_dir", *_DATA),
        "Saving and restoring": (
            "save_checkpoints_secs",
            "save_checkpoints_steps",
            "delta_every_steps",
            "checkpoints_max_to_keep",
            "restore_dir",
            "restore_ckpt",
        ),
        "Live training": ("export_base", "sync_targets", "base_name", "export_every_seconds"),
        "Watching": ("log_step_count_steps", "save_summary_steps", "metrics_port", "enable_controller"),
        "Computing": ("seed", "deterministic", "compile", "autocast"),
    },
    "launch": {
        "Processes": ("num_ps", "num_workers"),
        "Model and data": ("model_dir", *_DATA),
        "Saving and restoring": ("save_checkpoints_secs", "save_checkpoints_steps", "restore_dir", "restore_ckpt"),
    },
    "evaluate": {"Model and data": ("model_dir", "restore_dir", "restore_ckpt", *_DATA)},
    "predict": {"Model and data": ("model_dir", "restore_dir", "restore_ckpt", *_DATA)},
    "export": {"Model and data": ("model_dir", "restore_ckpt", "export_base", "base_name", "warmup_file")},
}


def print_help(command: str, flags: type, *, everything: bool) -> None:
    """Print what a command does and its flags: the usual ones, or all."""
    lines = [f"Usage: monolith {command} MODULE:CLASS [FLAGS]", "", _WHAT[command]]
    lines += ["MODULE is installed, or a file MODULE.py in this folder.", "", f"Example: {_EXAMPLE[command]}"]
    described, kinds = setting_help(flags), flag_kinds(flags)
    defaults = {one.name: one.default for one in fields(flags)}
    for title, names in _sections(command, flags, everything=everything):
        shown = [_described(_spelled(name, kinds[name], defaults[name]), described[name], defaults[name])
                 for name in names]  # fmt: skip
        lines += ["", f"{title}:", *shown]
    lines += ["", _described("-h, --help", "Show this page.", None)]
    lines += [_described("--help-all", "Show every flag; docs/settings.md describes them too.", None)]
    console.print("\n".join(lines), soft_wrap=True, markup=False, highlight=False)


def completions(command: str, flags: type, incomplete: str) -> list[tuple[str, str]]:
    """Return the flags of a command that begin as typed, each with its description; the usual ones come first."""
    described = setting_help(flags)
    names = [name for _, group in _sections(command, flags, everything=True) for name in group]
    found = [(flag_name(name), described[name]) for name in names if name not in UNREAD]
    found += [("--help", "Show the usual flags."), ("--help-all", "Show every flag.")]
    return [(flag, words) for flag, words in found if flag.startswith(incomplete)]


def _sections(command: str, flags: type, *, everything: bool) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the titles of a page with the settings below each."""
    described, general = setting_help(flags), setting_help(RunnerConfig)
    yield f"Flags of {command}", [name for name in described if name not in general]
    yield from _GROUPS[command].items()
    if everything:
        shown = {name for group in _GROUPS[command].values() for name in group}
        rest = [name for name in general if name not in shown]
        yield "Other settings", [name for name in rest if name not in UNREAD]
        yield "Settings of the original system that have no effect here", [name for name in rest if name in UNREAD]


def _spelled(name: str, kind: type, default: Any) -> str:
    """Return a flag with what it takes; a flag that is on by default is shown with what turns it off."""
    if kind is bool:
        return f"--[no-]{flag_name(name)[2:]}" if default is True else flag_name(name)
    is_text = issubclass(kind, Enum) or kind.__name__ == "str"
    return f"{flag_name(name)} {'TEXT' if is_text else kind.__name__.upper()}"


def _described(flag: str, words: str, default: Any) -> str:
    """Return a flag and, beside it or below if it is long, what it means."""
    if default not in (None, "", False, MISSING):
        shown = default.name.lower() if isinstance(default, Enum) else "yes" if default is True else default
        words = f"{words} [default: {shown}]"
    width, indent = max(60, min(console.width, 120)), " " * _FLAG_WIDTH
    beside = f"  {flag}".ljust(_FLAG_WIDTH)
    first = beside if len(beside) == _FLAG_WIDTH else f"{beside}\n{indent}"
    return first + f"\n{indent}".join(textwrap.wrap(words, width - _FLAG_WIDTH))
