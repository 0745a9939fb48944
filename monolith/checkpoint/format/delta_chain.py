"""Chains: a snapshot and the deltas on it, each tied to the one before it."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from monolith.checkpoint.format.durable_files import file_crc32c
from monolith.checkpoint.format.layout import (
    ERASED_NAME,
    LINK_NAME,
    base_and_number,
    delta_path,
    deltas_on,
    list_deltas,
    remove_snapshot,
)
from monolith.checkpoint.format.manifest import MANIFEST_NAME, Manifest, check_files, read_manifest, read_object
from monolith.errors import CorruptFileError, NewerFormatError

MAX_LINKS = 100_000
"""Deltas on one snapshot; a name alone must not make anybody list more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """What a delta builds on; its `delta.json`."""

    base: str
    """Folder name of the snapshot at the start of the chain."""

    number: int
    """Place in the chain, from 1."""

    previous: str
    """Folder name of the link before it: a delta, or the snapshot."""

    previous_crc32c: int
    """Checksum of the manifest of the link before it."""

    replaced_crc32c: int | None = None
    """Checksum of the manifest that the link before it had, or still has, until `monolith forget` rewrote both."""

    def to_json(self) -> str:
        """Return it as JSON."""
        values = asdict(self)
        if self.replaced_crc32c is None:
            del values["replaced_crc32c"]
        return json.dumps(values, sort_keys=True)

    @property
    def previous_crcs(self) -> list[int]:
        """Checksums of the manifests that the link before it may have."""
        return [self.previous_crc32c, *([] if self.replaced_crc32c is None else [self.replaced_crc32c])]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the link of a delta whose files are checked."""
        try:
            return cls(**read_object(folder / LINK_NAME))
        except (OSError, TypeError) as error:
            raise CorruptFileError(f"{folder / LINK_NAME} cannot be used: {error}") from error


def link_after(previous: Path) -> Link:
    """Return what the next delta on a snapshot or delta has to say."""
    base, number = base_and_number(previous)
    if number >= MAX_LINKS:
        raise ValueError(f"{previous} is the last of {MAX_LINKS} deltas that a chain can have; take a snapshot")
    return Link(
        base=base.name,
        number=number + 1,
        previous=previous.name,
        previous_crc32c=file_crc32c(previous / MANIFEST_NAME),
    )


def chain_to(path: Path) -> list[Path]:
    """Return what has to be read to restore a snapshot or a delta, in order.

    >>> [one.name for one in chain_to(Path("model.ckpt-7.delta-2"))]
    ['model.ckpt-7', 'model.ckpt-7.delta-1', 'model.ckpt-7.delta-2']
    """
    base, number = base_and_number(path)
    if number > MAX_LINKS:
        raise CorruptFileError(f"{path} would be delta {number} of a chain, which has at most {MAX_LINKS}")
    return [base, *(delta_path(base, one) for one in range(1, number + 1))]


def links_before(path: Path) -> set[Path]:
    """Return what a delta builds on directly: the link before it, and the snapshot its chain begins with.

    >>> sorted(one.name for one in links_before(Path("model.ckpt-7.delta-2")))
    ['model.ckpt-7', 'model.ckpt-7.delta-1']
    """
    base, number = base_and_number(path)
    return set() if number == 0 else {base, base if number == 1 else delta_path(base, number - 1)}


def check_chain(
    paths: Sequence[Path],
    on_bytes: Callable[[int], None] | None = None,
    *,
    unread: Callable[[str], bool] = lambda name: False,
) -> list[Manifest]:
    """Return the manifests of a chain after checking every file of it, but for those of the snapshot that are `unread`.

    `on_bytes` runs with the number of bytes read, piece by piece.

    Raises:
        FileNotFoundError: The snapshot has no manifest.
        CorruptFileError: A file of the snapshot is damaged; or a delta is damaged, missing, or belongs elsewhere: the
            message names it and the link that can still be restored.
    """
    manifest = read_manifest(paths[0])
    check_files(paths[0], manifest, on_bytes, unread=unread)
    manifests = [manifest]
    for previous, path in zip(paths, paths[1:], strict=False):
        try:
            manifests.append(_check_delta(path, previous, on_bytes))
        except NewerFormatError:
            raise
        except (CorruptFileError, FileNotFoundError) as error:
            raise CorruptFileError(
                f"the chain of deltas is broken at {path}: {error}; {previous.name} can be restored"
            ) from error
    return manifests


def check_links(paths: Sequence[Path]) -> None:
    """Raise a CorruptFileError unless each delta of a chain builds on the one before; their files are checked already.

    The message names the link.
    """
    for previous, path in zip(paths, paths[1:], strict=False):
        try:
            _check_link(path, previous)
        except CorruptFileError as error:
            raise CorruptFileError(f"the chain of deltas is broken at {path.name}: {error}") from error


def newest_link(base: Path) -> Path:
    """Return the last link up to which the chain on a whole snapshot is whole; a warning names the first broken one."""
    newest = base
    for path in deltas_on(base):
        expected = delta_path(base, base_and_number(newest)[1] + 1)
        try:
            _check_delta(expected, newest)
        except NewerFormatError:
            raise  # it is whole: what was trained up to it must not be lost unasked
        except (CorruptFileError, FileNotFoundError) as error:
            warnings.warn(f"the chain of deltas is broken at {expected}: {error}; {newest} is used", stacklevel=2)
            break
        newest = path
    return newest


def remove_orphans(model_dir: Path) -> list[Path]:
    """Remove deltas whose snapshot is gone; returns what was removed."""
    orphans = [path for path in list_deltas(model_dir) if not base_and_number(path)[0].exists()]
    for path in orphans:
        remove_snapshot(path)
    return orphans


def read_erased(folder: Path) -> dict[str, Tensor]:
    """Return the ids, by table, that a delta takes the rows of."""
    path = folder / ERASED_NAME
    try:
        erased: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CorruptFileError(f"{path} cannot be read: {error}") from error
    for name, ids in erased.items():
        if ids.dtype != torch.int64 or ids.dim() != 1:
            raise CorruptFileError(
                f"{path}: {name[:40]!r} is {ids.dtype} of shape {tuple(ids.shape)}, not a list of ids"
            )
    return erased


def _check_delta(path: Path, previous: Path, on_bytes: Callable[[int], None] | None = None) -> Manifest:
    manifest = read_manifest(path)
    check_files(path, manifest, on_bytes)
    _check_link(path, previous)
    return manifest


def _check_link(path: Path, previous: Path) -> None:
    link, expected = Link.read(path), link_after(previous)
    # Of two links that ids are forgotten in, the later one is replaced first: it fits both states of the one before.
    known = [replace(link, previous_crc32c=crc, replaced_crc32c=None) for crc in link.previous_crcs]
    if expected not in known:
        raise CorruptFileError(f"it builds on another {str(link.previous)[:80]} than the one that is there")
