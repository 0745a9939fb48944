"""Checkpoints in an object store: their files first, then the manifest by one PUT, and only then are they there."""

import shutil
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from monolith.checkpoint.format.delta_chain import chain_to
from monolith.checkpoint.format.durable_files import make_folder, write_durably
from monolith.checkpoint.format.layout import (
    TEMPORARY_SUFFIX,
    base_and_number,
    is_state_name,
    move_into_place,
    state_order,
)
from monolith.checkpoint.format.manifest import MANIFEST_NAME, check_files, list_files, read_manifest
from monolith.checkpoint.format.state_files.text_files import filesystem_of
from monolith.checkpoint.keep.retention import PRESERVED_NAME
from monolith.errors import CorruptFileError, FencedError

_FILES_AT_ONCE = 4
_NAMES_LISTED = 20


class SnapshotStore:
    """Copies of the snapshots and deltas of a model, anywhere that fsspec reaches: `s3://…`, `gs://…`, a folder.

    An object store cannot rename. So the manifest decides: it is written last and removed first. Whatever happens in
    between, a checkpoint is complete or does not exist.
    """

    def __init__(self, url: str) -> None:
        """Use a place; it need not exist yet."""
        self.url = url
        self._files, root = filesystem_of(url)
        self._root = root.rstrip("/")

    def names(self) -> list[str]:
        """Return the names of all complete checkpoints, oldest first."""
        self._files.invalidate_cache()
        found = self._files.glob(f"{self._root}/model.ckpt-*/{MANIFEST_NAME}")
        names = {str(path).split("/")[-2] for path in found}
        return sorted((name for name in names if is_state_name(name)), key=lambda name: state_order(Path(name)))

    def put(self, path: Path) -> None:
        """Copy a snapshot or delta, and the missing links of its chain.

        Raises:
            FencedError: A run of a later generation, on another machine, writes here now.
        """
        there = self.names()
        self._check_generation(path, there)
        for link in chain_to(path):
            if link == path or link.name not in there:
                self._put_one(link)

    def put_again(self, path: Path) -> None:
        """Copy a snapshot or delta that was written anew, in the place of the copy that is there."""
        self._put_one(path)

    def mark_kept(self, names: Iterable[str]) -> None:
        """Mark these as kept forever; another machine knows it only by this mark."""
        marked, there = self._marked(), set(self.names())
        for name in names:
            if name in there and name not in marked:
                self._files.pipe_file(self._at(name, PRESERVED_NAME), b"")

    def retire(self, here: Collection[str], newest: str, max_to_keep: int | None) -> None:
        """Remove checkpoints that are neither `here`, on the training machine, nor kept; a delta goes before its base.

        Checkpoints newer than `newest` belong to an abandoned run and are removed. So are deltas that are not here
        although their snapshot is. Another machine wrote the older ones. The ones kept forever stay, and the newest
        ones up to `max_to_keep` snapshots in all; None or 0 keeps all.
        """
        names, marked = self.names(), self._marked()
        counted = [name for name in names if base_and_number(Path(name))[1] == 0 and name not in marked]
        staying = set(counted[-max_to_keep:] if max_to_keep else counted) | marked | set(here)
        for name in reversed(names):
            base = base_and_number(Path(name))[0].name
            is_abandoned = state_order(Path(name)) > state_order(Path(newest)) or base in here
            if name not in here and (is_abandoned or base not in staying):
                self._remove(name)

    def fetch(self, model_dir: Path, name: str | None = None) -> Path | None:
        """Copy a checkpoint, the newest complete one by default, and its chain into a folder; None if there is none.

        Every file is checked before the folder gets its name.

        Raises:
            FileNotFoundError: There is no checkpoint of this name; the message lists the existing ones.
            CorruptFileError: A file is missing or differs from its manifest, or no checkpoint has a complete chain.
        """
        there = self.names()
        wanted = self._newest_complete(there) if name is None else name
        if wanted is None:
            return None
        if wanted not in there:
            raise FileNotFoundError(f"{self.url} has no checkpoint {wanted!r}; {self.contents()}")
        make_folder(model_dir)
        for link in chain_to(model_dir / wanted):
            if not (link / MANIFEST_NAME).exists():
                self._fetch_or_tell(link)
        if wanted in self._marked():
            write_durably(model_dir / wanted / PRESERVED_NAME, b"")
        return model_dir / wanted

    def contents(self) -> str:
        """Return a list of the contents in words, for an error message."""
        names = self.names()
        others = [name for name in self._entries() if name not in names]
        partial = [name for name in others if is_state_name(name)]
        if not names and not partial:
            return f"it has {_listed(others)}, and none of it is a checkpoint" if others else "there is nothing"
        complete = _listed(names) if names else "no complete checkpoint"
        return f"it has {complete}" + (f"; without a {MANIFEST_NAME}: {_listed(partial)}" if partial else "")

    def _newest_complete(self, there: Sequence[str]) -> str | None:
        """Return the newest checkpoint with a complete chain; a warning names the skipped ones."""
        known = set(there)
        for name in reversed(there):
            number = base_and_number(Path(name))[1]
            if number < len(known) and all(link.name in known for link in chain_to(Path(name))):
                return name
            warnings.warn(f"{name} of {self.url} is not used: what it builds on is not there", stacklevel=3)
        if there:
            raise CorruptFileError(f"{self.url} has only deltas without what they build on; {self.contents()}")
        return None

    def _entries(self) -> list[str]:
        try:
            found = self._files.ls(self._root, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(str(path).rstrip("/").rpartition("/")[2] for path in found)

    def _fetch_or_tell(self, path: Path) -> None:
        try:
            self._fetch_one(path)
        except (CorruptFileError, FileNotFoundError) as error:
            kind = type(error) if isinstance(error, CorruptFileError) else CorruptFileError
            raise kind(f"{self.url}/{path.name} cannot be fetched: {error}; {self.contents()}") from error

    def _marked(self) -> set[str]:
        self._files.invalidate_cache()
        return {str(path).split("/")[-2] for path in self._files.glob(f"{self._root}/model.ckpt-*/{PRESERVED_NAME}")}

    def _check_generation(self, path: Path, there: Sequence[str]) -> None:
        """Raise a FencedError if a later run wrote the newest checkpoint."""
        if not there:
            return
        own = read_manifest(path).generation
        with TemporaryDirectory() as folder:
            Path(folder, MANIFEST_NAME).write_bytes(self._files.cat_file(self._at(there[-1], MANIFEST_NAME)))
            try:
                found = read_manifest(Path(folder)).generation
            except CorruptFileError:
                return  # nobody can restore it: it is no sign of a run that goes on
        if found > own:
            raise FencedError(
                f"{path.name} is not copied to {self.url}: {there[-1]} there is of generation {found}, this run is of "
                f"generation {own}, so another machine has gone on from here; stop this run, or give it another "
                "mirror_dir"
            )

    def _put_one(self, path: Path) -> None:
        manifest = read_manifest(path)
        if path.name in self.names():
            self._remove(path.name)  # of an abandoned run: its manifest must not vouch for these files
        for folder in sorted({str(PurePosixPath(name).parent) for name in manifest.files}):
            self._files.makedirs(self._at(path.name, folder), exist_ok=True)  # where there are folders
        _in_parallel(lambda name: self._files.put_file(str(path / name), self._at(path.name, name)), manifest.files)
        self._files.pipe_file(self._at(path.name, MANIFEST_NAME), (path / MANIFEST_NAME).read_bytes())

    def _fetch_one(self, path: Path) -> None:
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            self._files.get_file(self._at(path.name, MANIFEST_NAME), str(temporary / MANIFEST_NAME))
            manifest = read_manifest(temporary)
            for name in manifest.files:
                (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            _in_parallel(
                lambda name: self._files.get_file(self._at(path.name, name), str(temporary / name)), manifest.files
            )
            check_files(temporary, manifest)
            list_files(temporary)  # flushes every file and folder
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        move_into_place(temporary, path)

    def _remove(self, name: str) -> None:
        self._files.rm_file(self._at(name, MANIFEST_NAME))
        if self._files.exists(f"{self._root}/{name}"):
            self._files.rm(f"{self._root}/{name}", recursive=True)

    def _at(self, *parts: str) -> str:
        return "/".join([self._root, *parts])


def _in_parallel(copy: Callable[[str], object], names: Iterable[str]) -> None:
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        for _ in pool.map(copy, names):
            pass


def _listed(names: Sequence[str]) -> str:
    """Return names for a message; of very many, the last ones."""
    more = len(names) - _NAMES_LISTED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[more:])} and {more} before"
