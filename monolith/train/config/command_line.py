"""Settings on the command line: one flag per field of a configuration, and one rule for who wins.

A value that code set to something else than its default wins; then the command line; then the default.
"""

import difflib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from monolith.train.config.setting import setting_help

Config = TypeVar("Config")

_TRUE, _FALSE = ("true", "yes", "t", "y", "1", "on"), ("false", "no", "f", "n", "0", "off")
_KINDS = {int: "a whole number", float: "a number", bool: "true or false"}
_FLAGS: ContextVar[Mapping[str, Any]] = ContextVar("flags", default=types.MappingProxyType({}))


class UnknownFlagError(ValueError):
    """A flag that no configuration has."""


def parse_flags(arguments: Sequence[str], config_class: type) -> dict[str, Any]:
    """Return the settings that `--name value`, `--name=value`, `--name` and `--no-name` (of a bool) say.

    A name may be written with dashes or underscores.

    >>> from monolith.train.config import RunnerConfig
    >>> parse_flags(["--num-ps=2", "--is_local", "--no-sort-id", "--discovery_type", "zk"], RunnerConfig)
    {'num_ps': 2, 'is_local': True, 'sort_id': False, 'discovery_type': <ServiceDiscoveryType.ZK: 3>}
    """
    kinds = flag_kinds(config_class)
    found: dict[str, Any] = {}
    left = list(arguments)
    while left:
        text = left.pop(0)
        if not text.startswith("--"):
            raise UnknownFlagError(_not_a_flag(text, kinds))
        name, given, value = text[2:].partition("=")
        name = name.replace("-", "_")
        positive = name.removeprefix("no").removeprefix("_")
        negated = name not in kinds and name.startswith("no") and kinds.get(positive) is bool and not given
        name = positive if negated else name
        if name not in kinds:
            raise UnknownFlagError(f"there is no flag {flag_name(name)}; {_closest(name, kinds)}--help-all lists all")
        if kinds[name] is bool and not given:
            following = left[0].lower() if left else ""
            found[name] = not negated if following not in _TRUE + _FALSE else left.pop(0).lower() in _TRUE
        elif given or (left and not left[0].startswith("--")):
            found[name] = _parsed(name, value if given else left.pop(0), kinds[name])
        else:
            raise ValueError(f"{flag_name(name)} needs a value, such as {_example(name, kinds[name])}")
    return found


def flag_name(name: str) -> str:
    """Return how the flag of a setting is written.

    >>> flag_name("model_dir")
    '--model-dir'
    """
    return f"--{name.replace('_', '-')}"


def flag_kinds(config_class: type) -> dict[str, type]:
    """Return the type of each flag of a configuration."""
    hints = get_type_hints(config_class)
    return {name: _kind(hints[name]) for name in setting_help(config_class)}


@contextmanager
def command_line(values: Mapping[str, Any]) -> Iterator[None]:
    """Apply these flags to configurations that are made inside the block."""
    token = _FLAGS.set(types.MappingProxyType(dict(values)))
    try:
        yield
    finally:
        _FLAGS.reset(token)


def merge_command_line(config: Any) -> list[str]:
    """Apply the command line to settings that code left at their default; return their names."""
    changed = []
    for one in fields(config):
        flags = _FLAGS.get()
        if one.name in flags and getattr(config, one.name) == one.default:
            setattr(config, one.name, flags[one.name])
            changed.append(one.name)
    return changed


def LinkDataclassToFlags(  # noqa: N802 - the name users know
    linked_list: Sequence[str] = (), linked_map: Mapping[str, str] | None = None
) -> Callable[[type[Config]], type[Config]]:
    """Make fields of a dataclass follow flags: of the same name, or of the name that `linked_map` gives."""
    links = {**{name: name for name in linked_list}, **(linked_map or {})}

    def link(cls: type[Config]) -> type[Config]:
        names = {one.name for one in fields(cls)}  # type: ignore[arg-type]
        for name in links:
            if name not in names:
                raise AttributeError(f"{name} is not a valid attribute of {cls.__name__}; it has {sorted(names)}")
        made: Any = cls
        init = made.__init__

        @wraps(init)
        def init_and_follow(self: Any, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            update_by_flags(self, links)

        made.__init__ = init_and_follow
        return cls

    return link


def update_by_flags(config: Any, links: Mapping[str, str]) -> None:
    """Set fields that are at their default to the flags they are linked to."""
    defaults = {one.name: one.default for one in fields(config)}
    flags = _FLAGS.get()
    for name, flag in links.items():
        if flag in flags and getattr(config, name) == defaults[name]:
            setattr(config, name, flags[flag])


def _kind(hint: Any) -> type:
    """Return the type that the text of a flag is converted to; a choice of types that has str is str."""
    if get_origin(hint) in (Union, types.UnionType):
        choices = [_kind(one) for one in get_args(hint) if one is not type(None)]
        return str if str in choices else choices[0]
    return hint if isinstance(hint, type) else str


def _parsed(name: str, text: str, kind: type) -> Any:
    choices: dict[str, Any] = {}
    if kind is bool:
        choices = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
    elif issubclass(kind, Enum):
        choices = {one.name.lower(): one for one in kind}
    try:
        if choices:
            return choices[text.lower()]
        return kind(text) if kind in (int, float, str, Path) else text
    except (KeyError, ValueError) as error:
        wanted = _KINDS.get(kind) or f"one of {', '.join(choices)}"
        raise ValueError(
            f"{flag_name(name)} must be {wanted}, got {text!r}; write, for example, {_example(name, kind)}"
        ) from error


def _example(name: str, kind: type) -> str:
    values: dict[type, str] = {int: "100", float: "0.5", bool: "true"}
    value = next(iter(kind)).name.lower() if issubclass(kind, Enum) else values.get(kind, "VALUE")
    return f"{flag_name(name)} {value}"


def _not_a_flag(text: str, kinds: Mapping[str, type]) -> str:
    name = text.lstrip("-").partition("=")[0].replace("-", "_")
    if name in kinds:
        return f"{text!r} is no flag; did you mean {flag_name(name)}?"
    return f"{text!r} is no flag, and no flag before it takes a value; flags look like {_example('max_steps', int)}"


def _closest(name: str, kinds: Mapping[str, type]) -> str:
    """Return words that name the flags most like a wrong one; there is nearly always one."""
    if near := difflib.get_close_matches(name, kinds, n=3):
        return f"did you mean {' or '.join(map(flag_name, near))}? "
    far = difflib.get_close_matches(name, kinds, n=1, cutoff=0.3)
    return f"the closest one is {flag_name(far[0])}; " if far else ""
