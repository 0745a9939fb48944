"""Ids out of all snapshots and deltas of a folder, a chain at a time."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from monolith.checkpoint.forget.finding import Finding, Left, Targets
from monolith.checkpoint.forget.state_folder import FORGETTING_SUFFIX, StateFolder
from monolith.checkpoint.format.delta_chain import Link
from monolith.checkpoint.format.durable_files import file_crc32c
from monolith.checkpoint.format.exchange import finish_exchanges, put_in_place
from monolith.checkpoint.format.layout import is_state_name, state_order
from monolith.checkpoint.format.manifest import MANIFEST_NAME
from monolith.checkpoint.keep.generations import commit_by
from monolith.checkpoint.keep.rollback import is_set_aside, name_before
from monolith.errors import CorruptFileError, NewerFormatError

OnProgress = Callable[[str, float], None]


def saved_states(model_dir: Path) -> list[Path]:
    """Return all snapshots and deltas of a folder in the order of their chains, also those that were set aside."""
    found = [path for path in model_dir.iterdir() if path.is_dir() and _is_state(path.name)]
    return sorted(found, key=lambda path: (_order(path), path.name))


def forget_in_states(
    model_dir: Path, targets: Targets, *, dry_run: bool = False, on_progress: OnProgress = lambda what, done: None
) -> Iterator[Finding | Left | Path]:
    """Rewrite every snapshot and delta that has something of the ids; each is whole and restorable at every moment.

    Yields what was found, what could not be rewritten, and the folders that were.
    """
    if not dry_run:
        _remove_leftovers(model_dir)
    states = saved_states(model_dir)
    done = 0
    for _, chain in groupby(states, key=lambda path: _order(path)[0]):
        paths = list(chain)
        on_progress(paths[0].name, done / len(states))
        yield from _forget_in_chain(model_dir, paths, targets, dry_run=dry_run)
        done += len(paths)
    on_progress("snapshots and deltas", 1.0)


def _forget_in_chain(
    model_dir: Path, paths: Sequence[Path], targets: Targets, *, dry_run: bool
) -> Iterator[Finding | Left | Path]:
    """Write what takes the place of each link, from the first to the last; let them change places from the last on.

    So a link that is new fits the one before it, old or new; and one that is old has only old ones before it.
    """
    renewed: dict[int, int] = {}
    written: list[StateFolder] = []
    for path in paths:
        try:
            state = StateFolder(path, targets)
            found = state.find()
            yield from found
            link = _new_link(state.link, renewed)
            if not dry_run and (found or link != state.link):
                renewed[state.crc32c] = state.write_new(link)
                written.append(state)
        except FileNotFoundError:
            continue  # it was removed meanwhile, or was never complete
        except (CorruptFileError, NewerFormatError) as error:
            shutil.rmtree(path.with_name(path.name + FORGETTING_SUFFIX), ignore_errors=True)
            yield Left(place=str(path), reason=f"it cannot be rewritten: {error}; remove the folder")
    old = []
    with commit_by(None, model_dir / MANIFEST_NAME):
        for state in reversed(written):
            if _is_as_it_was(state):
                old.append(put_in_place(state.new_path, state.path))
            else:
                old.append(state.new_path)
    for path in old:
        shutil.rmtree(path)
    yield from (state.path for state in written)


def _new_link(link: Link | None, renewed: dict[int, int]) -> Link | None:
    if link is None:
        return None
    for crc in link.previous_crcs:
        if crc in renewed:
            return replace(link, previous_crc32c=renewed[crc], replaced_crc32c=crc)
    return link


def _is_as_it_was(state: StateFolder) -> bool:
    """Whether a folder is the one that was read: False if a run removed it meanwhile."""
    path = state.path / MANIFEST_NAME
    if not path.exists():
        return False
    if file_crc32c(path) != state.crc32c:
        raise RuntimeError(f"{state.path} was written anew in the middle of this; run the command again")
    return True


def _remove_leftovers(model_dir: Path) -> None:
    """Remove what an earlier call left that was killed."""
    finish_exchanges(model_dir)
    for path in model_dir.glob(f"*{FORGETTING_SUFFIX}"):
        shutil.rmtree(path)


def _is_state(name: str) -> bool:
    return is_state_name(name) or is_set_aside(name)


def _order(path: Path) -> tuple[int, int]:
    return state_order(path if is_state_name(path.name) else path.with_name(name_before(path.name)))
