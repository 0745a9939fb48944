"""Paths in state files: absolute ones, and those that move with their folder."""

import os
import re

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def isabs(path: str) -> bool:
    """Return whether a path means the same wherever it is read: it starts at the root, or is a URL such as hdfs:/….

    >>> [isabs(path) for path in ("hdfs:/models/a", "s3://models/a", "/models/a", "models/a")]
    [True, True, True, False]
    """
    return path.startswith("hdfs:/") or _URL.match(path) is not None or os.path.isabs(path)


def is_remote(path: str) -> bool:
    """Return whether a path is a URL.

    >>> [is_remote(path) for path in ("hdfs:/models/a", "memory://models/a", "/models/a", "models/a")]
    [True, True, False, False]
    """
    return isabs(path) and not os.path.isabs(path)


def below(folder: str, path: str) -> str:
    """Return the path as it is if it is absolute, else as a path below the folder.

    >>> below("models/a", "model.ckpt-3"), below("models/a", "/old/model.ckpt-3")
    ('models/a/model.ckpt-3', '/old/model.ckpt-3')
    """
    return path if isabs(path) else os.path.join(folder, path)


def relative_to(folder: str, path: str) -> str:
    """Return the path without the folder if it lies below it, so that it survives a move of the folder.

    >>> relative_to("/models/a", "/models/a/model.ckpt-3"), relative_to("/models/a", "/models/ab/model.ckpt-3")
    ('model.ckpt-3', '/models/ab/model.ckpt-3')
    """
    start = folder.rstrip("/") + "/"
    return path.removeprefix(start) if path != start else path
