"""The tokens that a server takes: a file with one per line, read again when it changes."""

import hashlib
import hmac
import logging
import os
import re
import stat
import time
from pathlib import Path
from typing import Final

from monolith.errors import SecretError

MIN_LENGTH: Final = 16
"""A shorter token could be guessed."""

MAX_FILE_BYTES: Final = 1 << 20

RELOAD_SECONDS: Final = 1.0
"""How often to look, at most, whether the file has changed."""

# What RFC 6750 lets a client send after "Bearer ".
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")

_log = logging.getLogger(__name__)


class Tokens:
    """The tokens in a file; lines that are empty or begin with # do not count."""

    def __init__(self, path: str | os.PathLike[str], *, reload_seconds: float = RELOAD_SECONDS) -> None:
        """Read the file.

        Raises:
            SecretError: it is missing, others may read it, or it holds something else than tokens.
        """
        self._path = Path(path)
        self._reload_seconds = reload_seconds
        self._failure: str | None = None
        self._stamp = self._stamp_now()
        self._digests = self._read()
        self._looked = time.monotonic()

    def has(self, token: str) -> bool:
        """Whether this is one of the tokens; takes the same time for every wrong one."""
        self._look_again()
        digest = _digest(token.encode("utf-8", "surrogateescape"))
        # All of them, whichever fits: the time says nothing about the place.
        return any([hmac.compare_digest(digest, known) for known in self._digests])

    def _look_again(self) -> None:
        """Take the new tokens of a file that changed; if it is wrong now, say so once and keep the old ones."""
        now = time.monotonic()
        if now - self._looked < self._reload_seconds:
            return
        self._looked = now
        try:
            stamp = self._stamp_now()
            if stamp == self._stamp and self._failure is None:
                return
            self._digests = self._read()
        except SecretError as error:
            if str(error) != self._failure:
                _log.warning("the tokens stay as they were: %s", error)
            self._failure = str(error)
            return
        self._stamp, self._failure = stamp, None
        _log.info("%s has changed: %d tokens are taken", self._path, len(self._digests))

    def _stamp_now(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise self._unreadable(error) from error
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> tuple[bytes, ...]:
        try:
            # Without blocking: a pipe of that name must not hold this process up.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise self._unreadable(error) from error
        with open(descriptor, "rb") as file:
            self._check_rights(os.fstat(descriptor))
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise SecretError(f"{self._path} has more than {MAX_FILE_BYTES} bytes; it must hold one token per line")
        lines = content.decode("ascii", "replace").splitlines()
        found = {number: line.strip() for number, line in enumerate(lines, 1) if line.strip()[:1] not in ("", "#")}
        for number, token in found.items():
            # Never the token itself: errors go to logs.
            if len(token) < MIN_LENGTH or not _TOKEN.fullmatch(token):
                raise SecretError(
                    f"{self._path}, line {number}: a token is {MIN_LENGTH} or more letters, digits and -._~+/ without "
                    "spaces; `openssl rand -hex 32` makes one"
                )
        if not found:
            raise SecretError(f"{self._path} holds no token; write one per line, such as `openssl rand -hex 32` makes")
        return tuple(_digest(token.encode()) for token in found.values())

    def _check_rights(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise SecretError(f"{self._path} is no plain file; it must hold one token per line")
        if found.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
            raise SecretError(
                f"{self._path} has mode {stat.S_IMODE(found.st_mode):04o}: others may read or change the tokens; "
                f"`chmod 600 {self._path}`, and make new tokens if anybody saw them"
            )

    def _unreadable(self, error: OSError) -> SecretError:
        return SecretError(
            f"the token file {self._path} cannot be read: {error.strerror or error}; write one token per line to it"
        )


def _digest(token: bytes) -> bytes:
    """Return what is kept and compared: of one length, whatever a client sends."""
    return hashlib.sha256(token).digest()
