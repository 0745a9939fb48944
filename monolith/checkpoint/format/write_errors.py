"""The error and the cleanup when a checkpoint cannot be written."""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

_WAYS_OUT = {
    errno.ENOSPC: "free space, keep fewer checkpoints, or use another model_dir",
    errno.EDQUOT: "raise the quota, keep fewer checkpoints, or use another model_dir",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or write more shards",
    errno.EROFS: "mount it for writing, or use another model_dir",
    errno.EACCES: "let this user write there, or use another model_dir",
    errno.EPERM: "let this user write there, or use another model_dir",
}
_RUST_ERRNO = re.compile(r"\(os error (\d+)\)")


@contextmanager
def writing_of(target: Path, temporary: Path) -> Iterator[None]:
    """Remove `temporary` if the block fails; an error of the file system says what to do about it.

    What is on the disk already stays as it is.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise write_error(f"{target} cannot be written", error) from error
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def write_error(what: str, error: BaseException) -> BaseException:
    """Return an error of the same number whose message has `what`, the cause and the way out.

    >>> print(write_error("model/model.ckpt-7 cannot be written", OSError(errno.ENOSPC, "no space")))
    [Errno 28] model/model.ckpt-7 cannot be written: No space left on device; nothing that was written before is lost: \
free space, keep fewer checkpoints, or use another model_dir
    """
    number = _number(error)
    if number is None:
        return error
    way_out = _WAYS_OUT.get(number, "the next save tries again")
    name = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
    reason = f"{os.strerror(number)}{name}; nothing that was written before is lost: {way_out}"
    return OSError(number, f"{what}: {reason}")


def _number(error: BaseException) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    match = _RUST_ERRNO.search(str(error))
    return None if match is None else int(match[1])
