"""The page `docs/settings.md`, made from the settings themselves: python -m monolith.train.config.settings_page."""

import sys
from dataclasses import fields
from enum import Enum
from typing import Any

from monolith.train.config.readers import READERS
from monolith.train.config.run_config import RunConfig
from monolith.train.config.runner_config import RunnerConfig, runner_defaults
from monolith.train.config.setting import setting_text
from monolith.train.config.unread import UNREAD

_HEAD = """# Settings

This page lists every setting of a run. `RunnerConfig` takes all of them. `RunConfig` takes the ones marked with a
star. `monolith train`, `evaluate`, `predict` and `export` take each as a flag: `--num-ps 2`, `--deterministic`,
`--no-sort-id`. Underscores are accepted in place of dashes.

A value set in code wins if it differs from its default. Otherwise the flag applies, then the task's own parameter where
the original does so, then the default. The column "read by" names the class that reads a setting, and its field.
`python -m monolith.train.config.settings_page` writes this page.

A `RunConfig` shows other defaults for a few settings, as the original's does. It passes on only what differs from them;
the effect says what applies then.

| setting | default | read by | effect |
|---|---|---|---|
"""

_NOBODY = """
## Settings that have no effect

They keep the original's scripts running. A value other than the default raises an error if it would change the result.
Otherwise it gives a warning. It gives nothing if both values mean the same here.

| setting | default | set to another value | why |
|---|---|---|---|
"""


def settings_page() -> str:
    """Return the page."""
    texts, defaults = setting_text(RunnerConfig), runner_defaults()
    starred = {one.name: one.default for one in fields(RunConfig)}
    read = [
        f"| `{name}`{' *' if name in starred else ''} | {_shown(defaults[name])} | {READERS[name]} | {texts[name]}"
        f"{_other_default(starred.get(name, defaults[name]), defaults[name])} |"
        for name in defaults
        if name in READERS
    ]
    unread = [
        f"| `{name}` | {_shown(defaults[name])} | {UNREAD[name].outcome} | {UNREAD[name].reason} |"
        for name in defaults
        if name in UNREAD
    ]
    return _HEAD + "\n".join(read) + "\n" + _NOBODY + "\n".join(unread) + "\n"


def _other_default(in_run_config: Any, default: Any) -> str:
    """Return what applies where a `RunConfig` names another default: it passes on only what was changed."""
    if in_run_config == default:
        return ""
    return f" A `RunConfig` shows {_shown(in_run_config)}; left so, `{default}` applies."


def _shown(value: Any) -> str:
    if isinstance(value, Enum):
        return f"`{value.name.lower()}`"
    return "none" if value is None else '`""`' if value == "" else f"`{value}`"


if __name__ == "__main__":
    sys.stdout.write(settings_page())
