"""One model of a server: the versions that are in memory, and the one that answers."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from monolith._core.native import release_free_memory
from monolith.delta.forgetting import forget_in_tables
from monolith.errors import CorruptFileError, shown
from monolith.export.description import Description
from monolith.export.load import load_export
from monolith.export.serving_model import ServingModel
from monolith.export.versions import MODEL_FILE, complete_versions, version_path, version_paths
from monolith.serving.metrics import Progress
from monolith.serving.models.follower import Follower
from monolith.wire import Message

Load = Callable[[Path], ServingModel]
"""Returns the model in the folder of a version; raises as `load_export` does."""

_log = logging.getLogger(__name__)


class NotServedError(LookupError):
    """A model or version that is not here; the message says what is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """A model to serve."""

    base: str | Path
    """Folder of its versions."""

    name: str | None = None
    """What requests call it; by default what its first version is called."""

    version: int | None = None
    """Serve this version, whatever comes after it; by default the newest whole one."""

    sync_address: str | None = None
    """Where to take deltas from a trainer ("127.0.0.1:7001", "unix:/path"); None takes none."""

    shards: str | None = None
    """How to find processes that have its rows ("files:DIR", "static:ps_0=HOST:PORT"); None has them here."""


@dataclass(frozen=True, slots=True)
class FoundVersion:
    """A version in the folder; another one of the same number has another stamp."""

    version: int

    path: Path

    stamp: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Versions:
    """What answers: replaced as a whole, so that a request never sees half a change."""

    current: ServingModel | None = None

    by_number: Mapping[str, ServingModel] = field(default_factory=dict)


class ServedModel:
    """The versions of one model; any thread may ask for one while another brings or removes some.

    A request keeps the version that it began with until it is answered, also if that one is replaced meanwhile.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        num_threads: int = 1,
        num_kept: int = 1,
        load: Load | None = None,
        on_switch: Callable[[ServingModel], None] = lambda model: None,
        prepare: Callable[[ServingModel, Path], None] = lambda model, path: None,
    ) -> None:
        """Load the newest whole version, or the one that `config` names.

        Args:
            config: what to serve.
            num_threads: threads that share the dense work of one prediction.
            num_kept: versions in memory; those before the newest answer requests that name them.
            load: returns the model of a version's folder; by default all of it is in this process.
            on_switch: called with a version just before it answers.
            prepare: called with a version, and its folder, before it answers.

        Raises:
            FileNotFoundError: there is no complete version, or not this one.
            CorruptFileError: it is damaged, or all are; then the message is that of the newest.
        """
        if num_kept < 1:
            raise ValueError(f"a server keeps at least one version of a model, got {num_kept}")
        self.base = Path(config.base)
        self._load = load or partial(load_export, num_threads=num_threads)
        self._on_switch = on_switch
        self._num_kept = num_kept
        self._prepare = prepare
        # Held while versions change; requests do not take it.
        self._lock = threading.RLock()
        self._pinned = config.version
        self._is_loaded = True
        self._has_let_go = False
        """Whether a version was dropped since free memory was last given back to the system."""
        self._follower: Follower | None = None
        self._versions = _Versions()
        self._stamps: dict[int, tuple[int, int]] = {}
        self._damaged: dict[tuple[int, int], CorruptFileError] = {}
        self._name = config.name
        self._start()
        self.name: str = self._name or self.current.name

    @property
    def current(self) -> ServingModel:
        """The version that answers requests that name none; a NotServedError if the model is unloaded."""
        model = self._versions.current
        if model is None:
            raise NotServedError(
                f"model {self.name!r} is unloaded; POST /v2/repository/models/{self.name}/load loads it again"
            )
        return model

    @property
    def held(self) -> Sequence[ServingModel]:
        """Every version in memory, the one that answers first."""
        return list(self._versions.by_number.values())

    @property
    def is_loaded(self) -> bool:
        """Whether it answers."""
        return self._versions.current is not None

    @property
    def progress(self) -> Progress | None:
        """How much of training is being served; None while the model is unloaded."""
        model = self._versions.current
        if model is None:
            return None
        if self._follower is not None:
            return self._follower.progress
        return Progress(model.generation, model.sequence, model.created)

    @property
    def num_damaged(self) -> int:
        """Number of versions that were passed over because they are damaged."""
        return len(self._damaged)

    def find(self, version: str | None = None) -> ServingModel:
        """Return the version of this number, or the one that answers; a NotServedError says which there are."""
        if version is None:
            return self.current
        versions = self._versions
        if version not in versions.by_number:
            self.current  # noqa: B018  an unloaded model says so
            numbers = ", ".join(repr(number) for number in versions.by_number)
            raise NotServedError(f"model {self.name!r} has no version {shown(version)} here; it has {numbers}")
        return versions.by_number[version]

    def follow(self, follower: Follower) -> None:
        """Let deltas go to the version that answers, unless one is pinned: that one stays as it is."""
        with self._lock:
            self._follower = follower
            follower.forget = self._forget
            follower.refuse(self._refusal())

    def refresh(self) -> None:
        """Bring what is in memory in line with the folder: newer versions answer, removed ones go."""
        with self._changing():
            if self._is_loaded and self._pinned is None:
                self._take_newest(self._found())
            elif self._is_loaded:
                self._read_pinned_again(self._found())

    def load(self, version: int | None = None) -> ServingModel:
        """Answer with this version and no other until the next call; without a number, with the newest again.

        Raises:
            NotServedError: there is no such version; the one that answered goes on.
            CorruptFileError: it is damaged; likewise.
        """
        with self._changing():
            found = self._found()
            if version is None:
                before = self._pinned, self._is_loaded
                self._pinned, self._is_loaded = None, True
                # What is pinned took no deltas: a trainer goes on from the newest files.
                if not self._take_newest(found, again=before != (None, True)) and not self.is_loaded:
                    self._pinned, self._is_loaded = before
                    raise NotServedError(f"model {self.name!r} has no whole version in {self.base}")
            else:
                self._pin(version, found)
            if self._follower is not None:
                self._follower.refuse(self._refusal())
            return self.current

    def unload(self) -> None:
        """Forget every version until `load` is called; requests under way are answered."""
        with self._changing():
            self._is_loaded = False
            self._versions, self._has_let_go = _Versions(), True
            if self._follower is not None:
                self._follower.refuse(self._refusal())

    def index(self) -> list[dict[str, Any]]:
        """Return every version that is in memory or in the folder, as Triton's repository index has them."""
        here = {int(number) for number in self._versions.by_number}
        damaged = {found.version: self._damaged.get(found.stamp) for found in self._found()}
        listed = []
        for version in sorted(here | damaged.keys(), reverse=True):
            error = damaged.get(version)
            reason = "" if version in here else f"damaged: {error}" if error else "not in memory"
            state = "READY" if version in here else "UNAVAILABLE"
            listed.append({"name": self.name, "version": str(version), "state": state, "reason": reason})
        return listed

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock while versions change, then free the memory of the replaced ones."""
        with self._lock:
            yield
        # Not earlier: frames still name the replaced versions, and deltas wait for a lock.
        if self._has_let_go:
            self._has_let_go = False
            release_free_memory()

    def _forget(self, message: Message) -> Message:
        # With the lock: a version that is being loaded is in memory then.
        with self._lock:
            # An entry has no rows: the replicas of its shards do.
            held = [model.tables for model in self.held if model.takes.rows_of is not None]
            return forget_in_tables(held, message)

    def _start(self) -> None:
        found = self._found()
        if not found:
            version_paths(self.base)  # raises, with what the folder has
        if self._pinned is not None:
            try:
                self._pin(self._pinned, found)
            except NotServedError as error:
                raise FileNotFoundError(str(error)) from error
        elif not self._take_newest(found):
            raise self._damaged[found[0].stamp]

    def _pin(self, version: int, found: Sequence[FoundVersion]) -> None:
        wanted = [one for one in found if one.version == version]
        if not wanted:
            numbers = ", ".join(str(one.version) for one in found) or "none"
            raise NotServedError(f"there is no version {version} in {self.base}; there are {numbers}")
        # The deltas since are not part of the version: with a follower, its files are read again.
        model = self._loaded(wanted[0], again=self._follower is not None)
        self._pinned, self._is_loaded = version, True
        self._switch(model, wanted[0], found)

    def _read_pinned_again(self, found: Sequence[FoundVersion]) -> None:
        """Load the pinned version anew if its files were replaced: ids were forgotten."""
        for one in found:
            if one.version == self._pinned and self._stamps.get(one.version) != one.stamp:
                try:
                    self._pin(one.version, found)
                except CorruptFileError as error:
                    _log.warning("version %d goes on as it was: %s", one.version, error)

    def _take_newest(self, found: Sequence[FoundVersion], *, again: bool = False) -> bool:
        """Answer with the newest whole version; return False if there is none. The last one in memory stays."""
        there = {one.stamp for one in found}
        self._damaged = {stamp: error for stamp, error in self._damaged.items() if stamp in there}
        known = set(self._damaged)
        for one in found:
            if one.stamp in self._damaged:
                continue
            now = self._versions.current
            if not again and now is not None and self._stamps.get(now.version) == one.stamp:
                self._forget_removed(found)
            else:
                try:
                    model = self._newer(one, again=again)
                except CorruptFileError as error:
                    # A copy: the frames of the error itself hold the version that answers now.
                    self._damaged[one.stamp] = type(error)(*error.args)
                    continue
                if model is not None:
                    self._switch_to_newer(model, one, found, again=again)
            for stamp in self._damaged.keys() - known:
                words = "version %d is served in place of a newer one: %s"
                _log.warning(words, self.current.version, self._damaged[stamp])
            return True
        return False

    def _newer(self, found: FoundVersion, *, again: bool) -> ServingModel | None:
        """Return a version that is to answer from now on; None if what answers now must stay."""
        now, follower = self._versions.current, self._follower
        if now is None or follower is None or again:
            return self._loaded(found, again=again and follower is not None)
        description = Description.read(found.path)
        if found.version < now.version or self._is_overtaken(description):
            return None
        # A version of the same number was written anew, if no deltas came: ids were forgotten.
        return now.as_version(found.version) if follower.has(description) else self._loaded(found)

    def _switch_to_newer(
        self, model: ServingModel, found: FoundVersion, all_found: Sequence[FoundVersion], *, again: bool
    ) -> None:
        now, follower = self._versions.current, self._follower
        with nullcontext() if follower is None else follower.held():
            # Another number for the tables that answer needs no second look: the description is that of their files.
            if follower is not None and now is not None and model.tables is not now.tables and not again:
                # Deltas came while it was being loaded. Their sender may have ended: nobody would send them again.
                if self._is_overtaken(model.description):
                    return
                if follower.has(model.description):
                    model = now.as_version(found.version)
            self._switch(model, found, all_found)

    def _is_overtaken(self, description: Description) -> bool:
        """Whether deltas are at, or on the way to, what a version cannot bring."""
        follower = self._follower
        return follower is not None and (follower.is_past(description) or follower.is_amid_full_sync(description))

    def _loaded(self, found: FoundVersion, *, again: bool = False) -> ServingModel:
        """Return a version from memory, or from its files, ready to answer."""
        if not again and self._stamps.get(found.version) == found.stamp:
            known = self._versions.by_number.get(str(found.version))
            if known is not None:
                return known
        model = self._load(found.path)
        if self._name is not None:
            model.name = self._name
        self._prepare(model, found.path)
        return model

    def _switch(self, model: ServingModel, found: FoundVersion, all_found: Sequence[FoundVersion]) -> None:
        before = self._versions.current
        self._name = self._name or model.name
        self._stamps[found.version] = found.stamp
        # Of two names of the same tables, which deltas give, the newer stays.
        others = [one for one in self.held if one.version != model.version and one.tables is not model.tables]
        on_disk = {one.version: one.stamp for one in all_found}
        others = [one for one in others if on_disk.get(one.version) == self._stamps.get(one.version)]
        kept = [model, *others[: self._num_kept - 1]]
        self._on_switch(model)
        self._versions = _Versions(model, {str(one.version): one for one in kept})
        self._stamps = {one.version: self._stamps[one.version] for one in kept}
        if self._follower is not None and (before is None or before.tables is not model.tables):
            self._follower.adopt(model)
        if before is not None:
            _log.info("model %r: version %d answers, after %d", self._name, model.version, before.version)
            self._has_let_go = True

    def _forget_removed(self, found: Sequence[FoundVersion]) -> None:
        """Let go of kept versions whose folders are gone or replaced, but never of the one that answers."""
        versions = self._versions
        there = {str(one.version) for one in found if self._stamps.get(one.version) == one.stamp}
        kept = {number: one for number, one in versions.by_number.items() if one is versions.current or number in there}
        if len(kept) < len(versions.by_number):
            self._versions, self._has_let_go = _Versions(versions.current, kept), True

    def _found(self) -> Sequence[FoundVersion]:
        """Return the complete versions in the folder, newest first."""
        found = []
        for version in reversed(complete_versions(self.base)):
            path = version_path(self.base, version)
            try:
                stat = (path / MODEL_FILE).stat()
            except OSError:
                continue  # removed since
            found.append(FoundVersion(version, path, (stat.st_ino, stat.st_mtime_ns)))
        return found

    def _refusal(self) -> str | None:
        """Return why deltas are refused; None if they are taken."""
        if not self._is_loaded:
            return f"model {self._name!r} is unloaded here"
        if self._pinned is not None:
            return f"version {self._pinned} of model {self._name!r} is pinned here; it takes no deltas"
        return None
