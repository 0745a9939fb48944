"""What a user reads when a command fails: the thing, the value, the way out, and the place in the user's own code."""

import difflib
import os
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any

import typer

from monolith.errors import MonolithError

# What can go wrong without a defect of ours: the message alone says what to do.
USER_ERRORS = (MonolithError, ValueError, OSError, ImportError, NotImplementedError, SyntaxError)

UsageError: Any = typer.BadParameter.__bases__[0]
"""What typer raises for wrong arguments; it does not export the name."""

_PACKAGE = Path(__file__).resolve().parent.parent
_STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
_INSTALLED = {"site-packages", "dist-packages"}


def error_words(error: BaseException) -> str:
    """Return an error in words: its message, its notes, and the line of the user's code that led to it.

    That is one line, and below it the lines of the message that are indented. An error that is neither the user's nor
    foreseen goes by its type, and says how to see where it came from.
    """
    # A KeyError shows its message in quotes.
    raw = error.args[0] if isinstance(error, KeyError) and error.args else error
    message = str(raw) or type(error).__name__
    notes = [f"({note})" for note in getattr(error, "__notes__", ())]
    place = user_place(error)
    if place:
        notes.append(f"(at {place})")
    if not is_user_error(error):
        message = f"{type(error).__name__}: {message}"
        notes.append("(--traceback shows where it came from)")
    indented = [line.rstrip() for line in message.splitlines() if line.startswith("  ")]
    joined = [word for line in message.splitlines() if not line.startswith("  ") for word in line.split()]
    return "\n".join([" ".join([*joined, *notes]), *indented])


def is_user_error(error: BaseException) -> bool:
    """Return whether the message of an error is enough to mend it: so it is where our code raised it in words."""
    if isinstance(error, USER_ERRORS):
        return True
    frames = extract_tb(error.__traceback__)
    return (
        bool(frames)
        and (frames[-1].line or "").startswith("raise ")
        and Path(frames[-1].filename).resolve().is_relative_to(_PACKAGE)
    )


def user_place(error: BaseException) -> str | None:
    """Return the last line of the user's own code on the way to an error, as "file, line N"; None without one."""
    for frame in reversed(extract_tb(error.__traceback__)):
        path = Path(frame.filename).resolve()
        # The command's own script and installed packages are no code of the user's.
        if not path.is_file() or path == Path(sys.argv[0]).resolve() or path.is_relative_to(_PACKAGE):
            continue
        if not path.is_relative_to(_STDLIB) and not _INSTALLED & set(path.parts):
            return f"{os.path.relpath(path)}, line {frame.lineno}"
    return None


def usage_words(error: Any, arguments: Sequence[str]) -> str:
    """Return what typer says about wrong arguments, with the value, the closest right ones and where to read on."""
    context = getattr(error, "ctx", None)
    path = " ".join(["monolith", *arguments[:1]]) if context is None else context.command_path
    lists = f"`{path} --help` lists all"
    if context is not None and hasattr(error, "possibilities"):
        known = [name for one in context.command.params for name in getattr(one, "opts", ()) if name.startswith("-")]
        near = difflib.get_close_matches(error.option_name.replace("_", "-"), known, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}? {lists}" if near else lists
        return f"`{path}` has no option {error.option_name}; {hint}"
    parameter = getattr(error, "param", None)
    if parameter is None:
        message = error.format_message()
        return f"{message[:1].lower()}{message[1:]} {lists}"
    name = parameter.opts[0] if parameter.opts[0].startswith("-") else (parameter.metavar or parameter.opts[0].upper())
    meaning = (getattr(parameter, "help", None) or "no description").rstrip(".")
    if hasattr(error, "param_type"):
        return f"`{path}` needs {name} ({meaning}); `{path} --help` shows how"
    value = _given(parameter.opts, arguments)
    got = "" if value is None else f", got {value!r}"
    return f"{name}: {error.message.removeprefix('Value error, ').rstrip('.')}{got} ({meaning})"


def _given(spellings: Sequence[str], arguments: Sequence[str]) -> str | None:
    """Return the value that the arguments give an option."""
    for place, text in enumerate(arguments):
        name, equals, value = text.replace("_", "-").partition("=")
        if name in spellings:
            return text.partition("=")[2] if equals else next(iter(arguments[place + 1 :]), None)
    return None
