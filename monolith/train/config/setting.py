"""One field of a configuration: its default, and what it means, where the command line can find it too."""

from dataclasses import field, fields
from typing import Any

_HELP = "help"
_HIDDEN = "hidden"


def setting(default: Any, help: str, *, flag: bool = True) -> Any:
    """Return a dataclass field with a default and a description; `flag=False` keeps it off the command line."""
    metadata = {_HELP: help, _HIDDEN: not flag}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def setting_help(config_class: type) -> dict[str, str]:
    """Return what each field of a configuration that the command line may set means."""
    return {one.name: one.metadata[_HELP] for one in fields(config_class) if not one.metadata.get(_HIDDEN, True)}


def setting_text(config_class: type) -> dict[str, str]:
    """Return what each field of a configuration means."""
    return {one.name: one.metadata[_HELP] for one in fields(config_class) if _HELP in one.metadata}
