"""forget: ids out of everything that a model left anywhere."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from monolith.checkpoint.forget.finding import Finding, FoundKind, Left, Targets, finding
from monolith.checkpoint.forget.model_dir import OnProgress, forget_in_states, saved_states
from monolith.checkpoint.forget.texts import forget_texts
from monolith.checkpoint.format.layout import STREAM_NAME, is_state_name
from monolith.checkpoint.keep import SnapshotStore
from monolith.cluster.discovery import discovery_from
from monolith.delta.forgetting import ask_to_forget
from monolith.export.description import Description
from monolith.export.forgetting.versions import export_bases, forget_in_versions, unfinished_versions
from monolith.export.versions import latest_version, shard_folder
from monolith.features.kept_strings import STRINGS_NAME
from monolith.train.forget.running import forget_in_run, held
from monolith.train.hooks.standard import DEEP_INSIGHT_FOLDER
from monolith.train.live.live_config import is_discovery
from monolith.wire import Deadline, SharedSecret, TlsConfig

_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgetPlaces:
    """Where to look for ids besides the folder of the model."""

    export_bases: Sequence[Path] = ()
    """Export folders elsewhere; those below the model's folder are found."""

    servers: Sequence[str] = ()
    """Addresses at which servers take deltas (`--sync-address`), or a discovery that finds the replicas of shards."""

    mirror: str | None = None
    """A folder or URL that has copies of the snapshots."""

    tls: TlsConfig | None = None
    """Certificates for servers and the chief of a job; without them, the secrets in their folders count."""

    timeout_seconds: float = 600.0
    """How long the run may take for its part."""


@dataclass(slots=True)
class ForgetReport:
    """Where ids were, what was rewritten, and what may be left."""

    targets: dict[str, list[int]]
    """The ids by table."""

    found: list[Finding] = field(default_factory=list)
    rewritten: list[str] = field(default_factory=list)
    """Folders and files that were written anew."""

    left: list[Left] = field(default_factory=list)

    def add(self, news: Iterable[Finding | Left | Path]) -> None:
        """Note what a part of the work brought."""
        for one in news:
            if isinstance(one, Finding):
                self.found.append(one)
            elif isinstance(one, Left):
                self.left.append(one)
            else:
                self.rewritten.append(str(one))


def forget(
    model_dir: Path,
    targets: Targets,
    places: ForgetPlaces | None = None,
    *,
    dry_run: bool = False,
    on_progress: OnProgress = lambda what, done: None,
) -> ForgetReport:
    """Remove ids from a run, its files, its exports and its servers; with `dry_run` only look for them.

    The run that trains in the folder goes first: what it saves and exports later does not have them. Every snapshot and
    version is whole at every moment: after a crash, the same call finishes the work. Events are not rewritten. Ids that
    are trained on again come back.
    """
    places = places or ForgetPlaces()
    report = ForgetReport({table: sorted(ids) for table, ids in targets.items()})
    bases = sorted({*places.export_bases, *export_bases(model_dir)})
    with held(model_dir) as runs:
        if runs and not dry_run:
            on_progress("the run", 0.0)
            report.add(forget_in_run(model_dir, targets, tls=places.tls, timeout_seconds=places.timeout_seconds))
            report.add(_wait_for_exports(bases, places.timeout_seconds))
        elif runs:
            words = "a run trains here; without --dry-run it is asked to forget, too"
            report.add([Left(place=str(model_dir), reason=words)])
        report.add(forget_in_states(model_dir, targets, dry_run=dry_run, on_progress=on_progress))
        for base in bases:
            on_progress(str(base), 1.0)
            report.add(forget_in_versions(base, targets, dry_run=dry_run))
        report.add(_forget_texts(model_dir, targets, dry_run=dry_run))
        if places.mirror is not None and not dry_run:
            on_progress(places.mirror, 1.0)
            report.add(_copy_again(model_dir, places.mirror, set(report.rewritten)))
    if not dry_run:
        report.add(_forget_at_servers(places, bases, targets))
    report.add(_what_events_left(model_dir))
    return report


def _forget_texts(model_dir: Path, targets: Targets, *, dry_run: bool) -> Iterator[Finding | Path]:
    path = model_dir / STRINGS_NAME
    if not path.is_file():
        return
    had_text = forget_texts(path, {id_ for ids in targets.values() for id_ in ids}, dry_run=dry_run)
    for table, ids in targets.items():
        yield from finding(path, FoundKind.TEXT, table, had_text & ids)
    if had_text and not dry_run:
        yield path


def _wait_for_exports(bases: Sequence[Path], timeout_seconds: float) -> Iterator[Left]:
    """Wait until versions that were being written have their names: they may have the ids."""
    deadline = Deadline.after(timeout_seconds)
    waiting = {path for base in bases for path in unfinished_versions(base)}
    while waiting and not deadline.expired:
        time.sleep(_POLL_SECONDS)
        waiting &= {path for base in bases for path in unfinished_versions(base)}
    for path in sorted(waiting):
        yield Left(place=str(path), reason="this version is still being written; run the command again")


def _forget_at_servers(places: ForgetPlaces, bases: Sequence[Path], targets: Targets) -> Iterator[Finding | Left]:
    for address in [one for server in places.servers for one in _addresses_of(server, bases)]:
        errors = []
        # Each server knows the secret of the folder that it serves.
        secrets: list[Path | None] = [None] if places.tls is not None else [*bases]
        for base in secrets:
            try:
                secret = None if base is None else SharedSecret.of_folder(base)
                found = ask_to_forget(address, targets, secret=secret, tls=places.tls)
            except Exception as error:  # noqa: BLE001  another folder's secret may fit
                errors.append(str(error))
                continue
            for table, ids in found.items():
                yield from finding(f"the server at {address}", FoundKind.ROW, table, set(ids))
            break
        else:
            why = "; ".join(errors) or "there is no export base whose secret it would know; name it with --export-base"
            yield Left(place=f"the server at {address}", reason=why)


def _addresses_of(server: str, bases: Sequence[Path]) -> list[str]:
    """Return an address as it is, and all replicas of all shards that a discovery finds; entries have no rows."""
    if not is_discovery(server):
        return [server]
    newest = [Description.read(path) for path in map(latest_version, bases) if path is not None]
    num_shards = max((len(one.shards) for one in newest), default=0)
    if not num_shards:
        raise ValueError(
            f"{server} finds the replicas of shards, but no export here has shards; name its folder with --export-base"
        )
    with discovery_from(server) as discovery:
        replicas = [discovery.query(shard_folder(shard)) for shard in range(num_shards)]
    return [address for found in replicas for address in found.values()]


def _copy_again(model_dir: Path, url: str, rewritten: set[str]) -> Iterator[Left | Path]:
    """Copy what was rewritten to the mirror; what only the mirror has is left to people."""
    store = SnapshotStore(url)
    for name in store.names():
        if not (model_dir / name).is_dir():
            yield Left(place=f"{url}/{name}", reason=f"it is not in {model_dir} any more; remove it, or fetch it here")
        elif str(model_dir / name) in rewritten:
            store.put_again(model_dir / name)
            yield Path(f"{url}/{name}")


def _what_events_left(model_dir: Path) -> Iterator[Left]:
    """Name what has events in it, or parts of them."""
    pools = [path for path in saved_states(model_dir) if is_state_name(path.name) and _has_pool(path / STREAM_NAME)]
    if pools:
        words = "the pool of negative examples in it has items of events, which are not looked at"
        yield Left(place=str(pools[-1] / STREAM_NAME), reason=words)
    if (model_dir / DEEP_INSIGHT_FOLDER).is_dir():
        words = "these are predictions that the run wrote for people, and may name ids"
        yield Left(place=str(model_dir / DEEP_INSIGHT_FOLDER), reason=words)


def _has_pool(path: Path) -> bool:
    return path.is_file() and '"gids"' in path.read_text()
