"""Two folders of one file system change their names, in one moment where the system can do that."""

import ctypes
import errno
import os
import shutil
from pathlib import Path

from monolith.checkpoint.format.durable_files import sync_folder

EXCHANGED_SUFFIX = ".exchanged"
"""Of a folder whose place another one takes, where the system cannot let both change places in one moment."""

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100
_CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def put_in_place(new: Path, target: Path) -> Path:
    """Give a folder the name of another one beside it; return where that one is now, to be removed.

    On Linux there is a whole folder of this name at every moment. Where the file system cannot do that, there is none
    for a moment, and after a crash in that moment `finish_exchanges` gives the old one its name back.
    """
    old = new
    if not _exchange(new, target):
        old = target.with_name(target.name + EXCHANGED_SUFFIX)
        shutil.rmtree(old, ignore_errors=True)
        os.rename(target, old)
        os.rename(new, target)
    sync_folder(target.parent)
    return old


def finish_exchanges(folder: Path) -> list[Path]:
    """End what a crash interrupted in `put_in_place`; return what was removed."""
    removed = []
    for old in sorted(folder.glob(f"*{EXCHANGED_SUFFIX}")):
        target = old.with_name(old.name.removesuffix(EXCHANGED_SUFFIX))
        if target.exists():
            shutil.rmtree(old)
            removed.append(old)
        else:
            os.rename(old, target)
            sync_folder(folder)
    return removed


def _exchange(one: Path, other: Path) -> bool:
    """Let two paths change places; False if this system cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
