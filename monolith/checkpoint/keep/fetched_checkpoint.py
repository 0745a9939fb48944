"""Another model's checkpoint from an object store, on this disk while it is restored."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monolith.checkpoint.format.delta_chain import chain_to, check_links
from monolith.checkpoint.format.layout import FETCHED_FOLDER
from monolith.checkpoint.keep.object_store import SnapshotStore
from monolith.errors import CorruptFileError


@contextmanager
def fetched_checkpoint(url: str, model_dir: Path, name: str | None = None) -> Iterator[Path]:
    """Yield a copy of a checkpoint at a URL, the newest complete one if none is named; the block ends, and it is gone.

    It lies in a folder of `model_dir` that is nobody's checkpoint, with all that it builds on. After a crash,
    `clean_leftovers` removes it.

    Raises:
        FileNotFoundError: There is no checkpoint there, or none of this name; the message says what there is.
        CorruptFileError: It is damaged, or what it builds on is not there.
    """
    folder, store = model_dir / FETCHED_FOLDER, SnapshotStore(url)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        path = store.fetch(folder, None if name is None else os.path.basename(name))
        if path is None:
            raise FileNotFoundError(f"{url} has no checkpoint to start from: {store.contents()}")
        try:
            check_links(chain_to(path))
        except CorruptFileError as error:
            raise CorruptFileError(f"{url}/{path.name} cannot be restored: {error}; {store.contents()}") from error
        yield path
    except Exception as error:
        error.add_note(f"the model was to start from a checkpoint at {url}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
