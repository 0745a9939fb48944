"""A file that remembers which texts became ids, for people who want to read tables.

The file is a TFRecord file with a record per text: the id is the hash of the text. It grows by each text that is met
for the first time, before the batch that holds it is used. A crash of the machine may lose the last texts; they are
written again when they are met again.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from monolith._core import native

STRINGS_NAME: Final = "strings.tfrecord"
"""The file in a model's folder where commands look for texts."""

MAX_STRINGS: Final = 10_000_000
"""Texts that are kept at most; in memory each takes about 40 bytes. Longer texts than 1024 bytes are not kept."""

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Int64s = np.ndarray[Any, np.dtype[np.int64]]
_log = logging.getLogger(__name__)


class KeptStrings:
    """Texts by id, as a file has them.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/strings.tfrecord"
    >>> from monolith.features import ids_of_texts
    >>> with keep_strings(path):
    ...     ids = ids_of_texts(["toy story", "heat"])
    >>> KeptStrings.read(path).text(int(ids[1]))
    'heat'
    """

    def __init__(self, ids: _Int64s, payloads: _Bytes, row_splits: _Int64s) -> None:
        """Take texts and their ids."""
        order = np.argsort(ids, kind="stable")
        self._ids, self._order = ids[order], order
        self._payloads, self._row_splits = payloads, row_splits

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "KeptStrings":
        """Return the texts of a file."""
        payloads, row_splits, _ = _read_frames(Path(path).read_bytes())
        ids = np.empty(len(row_splits) - 1, np.int64)
        native.city_hash64_rows(payloads, row_splits, ids)
        return cls(ids, payloads, row_splits)

    def __len__(self) -> int:
        return len(self._ids)

    def text(self, id_: int) -> str | None:
        """Return the text of an id, None if it is not known; bytes that are no UTF-8 are escaped."""
        place = int(np.searchsorted(self._ids, id_))
        if place == len(self._ids) or self._ids[place] != id_:
            return None
        row = self._order[place]
        text = self._payloads[self._row_splits[row] : self._row_splits[row + 1]].tobytes()
        return text.decode("utf-8", "backslashreplace")


class _StringsFile:
    """The file while texts are added to it."""

    def __init__(self, path: Path, max_strings: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.texts = native.TextDictionary(max_strings)
        self._path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        with self._locked():
            data = path.read_bytes()
            payloads, row_splits, num_bytes = _read_frames(data)
            if num_bytes < len(data):
                _log.warning("%s is damaged behind byte %d; the rest is cut off", path, num_bytes)
                os.ftruncate(self._handle, num_bytes)
        self.texts.add_known(payloads, row_splits)

    def save(self) -> None:
        """Append the texts that are new."""
        data, ends = self.texts.take_new()
        if not ends:
            return
        row_splits = np.array([0, *ends], np.int64)
        out = np.empty(len(data) + len(ends) * _layout().overhead, np.uint8)
        native.encode_frames(np.frombuffer(data, np.uint8), row_splits, row_splits[:0], _layout(), out)
        with self._locked():
            before, view = os.fstat(self._handle).st_size, memoryview(out.data).cast("B")
            try:
                while view:
                    view = view[os.write(self._handle, view) :]
            except OSError:
                os.ftruncate(self._handle, before)
                raise

    def close(self) -> None:
        os.close(self._handle)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)


_open_files: list[_StringsFile] = []


@contextmanager
def keep_strings(path: str | os.PathLike[str], *, max_strings: int = MAX_STRINGS) -> Iterator[None]:
    """Let every source of this process remember, in a file, the texts that become ids in this block.

    Processes may share a file: each adds what it meets.
    """
    opened = _StringsFile(Path(path), max_strings)
    _open_files.append(opened)
    try:
        yield
    finally:
        _open_files.remove(opened)
        opened.close()


@contextmanager
def noted() -> Iterator[native.TextDictionary | None]:
    """Return where the block notes texts that become ids, None for nowhere; afterwards they are in the file."""
    if not _open_files:
        yield None
        return
    opened = _open_files[-1]
    yield opened.texts
    opened.save()


def _layout() -> native.FrameLayout:
    return native.FrameLayout(tf_record=True, max_record_bytes=1 << 20)


def _read_frames(data: bytes) -> tuple[_Bytes, _Int64s, int]:
    """Return the texts end to end, where they end, and the bytes of the file that hold them."""
    frames = np.frombuffer(data, np.uint8)
    counted = native.skip_frames(frames, _layout(), len(frames))
    payloads, row_splits = np.empty(len(frames), np.uint8), np.zeros(counted.num_frames + 1, np.int64)
    found = native.decode_frames(frames, _layout(), payloads, row_splits)
    return payloads[: found.payload_bytes], row_splits[: found.num_records + 1], found.num_bytes
