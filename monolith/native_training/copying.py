"""Copy files and folders between file systems, several at a time, and again where it failed."""

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any

import fsspec

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 16 << 20


def copy_file(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    overwrite: bool = True,
    skip_nonexist: bool = True,
    max_retries: int = 5,
) -> bool:
    """Copy a file, local or remote; returns whether there was one.

    It appears under its name when it is complete. A source that is not there is passed over with `skip_nonexist`, or
    else a FileNotFoundError; any other failure to read or write is tried again up to `max_retries` times.
    """
    source_files, source = _filesystem(src)
    target_files, target = _filesystem(dst)
    if not overwrite and target_files.exists(target):
        raise FileExistsError(f"{os.fspath(dst)} exists; pass overwrite=True to replace it")
    for attempt in range(max_retries + 1):
        try:
            _copy_once(source_files, source, target_files, target)
            return True
        except FileNotFoundError:
            if skip_nonexist:
                _log.warning("%s is not there to be copied", os.fspath(src))
                return False
            raise
        except OSError as error:
            if attempt == max_retries:
                raise
            _log.warning("copying %s to %s: %s; trying again", os.fspath(src), os.fspath(dst), error)
    raise ValueError(f"max_retries must not be negative, got {max_retries}")


def copy_recursively(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    max_workers: int = 1,
    skip_nonexist: bool = True,
    max_retries: int = 5,
) -> None:
    """Make `dst` a copy of the folder `src`, with `max_workers` files at a time; what was at `dst` is removed first.

    A source that is not there leaves `dst` alone with `skip_nonexist`, and is a ValueError otherwise.
    """
    source_files, source = _filesystem(src)
    target_files, target = _filesystem(dst)
    if not source_files.exists(source):
        if skip_nonexist:
            return
        raise ValueError(f"there is no folder {os.fspath(src)} to copy")
    if type(source_files) is type(target_files) and _one_inside_the_other(source, target):
        # Removing the target would remove the source.
        raise ValueError(f"cannot copy {os.fspath(src)} to {os.fspath(dst)}: one lies inside the other")
    if target_files.exists(target):
        target_files.rm(target, recursive=True)
    target_files.makedirs(target, exist_ok=True)
    pairs = []
    for folder, folders, names in source_files.walk(source):
        inside = str(folder)[len(source) :].strip("/")
        for name in folders:
            target_files.makedirs("/".join(filter(None, [target, inside, name])), exist_ok=True)
        pairs += [(f"{folder}/{name}", "/".join(filter(None, [target, inside, name]))) for name in names]

    def copy(pair: tuple[str, str]) -> None:
        unstrip = source_files.unstrip_protocol, target_files.unstrip_protocol
        copy_file(unstrip[0](pair[0]), unstrip[1](pair[1]), skip_nonexist=skip_nonexist, max_retries=max_retries)

    with ThreadPoolExecutor(max_workers=max(1, max_workers)) as pool:
        for _ in pool.map(copy, pairs):
            pass


def _copy_once(source_files: Any, source: str, target_files: Any, target: str) -> None:
    temporary = f"{target}.tmp"
    with source_files.open(source, "rb") as reading:
        target_files.makedirs(str(PurePosixPath(target).parent), exist_ok=True)
        with target_files.open(temporary, "wb") as writing:
            while chunk := reading.read(_CHUNK_BYTES):
                writing.write(chunk)
    target_files.mv(temporary, target)


def _filesystem(path: str | os.PathLike[str]) -> tuple[Any, str]:
    files, name = fsspec.core.url_to_fs(os.fspath(path))
    return files, str(name).rstrip("/") or "/"


def _one_inside_the_other(one: str, other: str) -> bool:
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first.is_relative_to(second) or second.is_relative_to(first)
