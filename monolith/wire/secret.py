"""The shared secret of a job: a file that its owner alone may read, and proofs of knowing what is in it."""

import errno
import hmac
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from monolith.errors import SecretError

SECRET_FILE: Final = "shared.secret"
"""Its name in a folder that the processes of a job have in common."""

SECRET_BYTES: Final = 32

_FILE_BYTES: Final = 2 * SECRET_BYTES + 1


@dataclass(frozen=True, slots=True)
class SharedSecret:
    """32 random bytes that the processes of a job know and nobody else does.

    >>> SharedSecret.new("an example").proof(b"I am the server").hex() != SharedSecret.new("another").proof(b"").hex()
    True
    """

    key: bytes = field(repr=False)

    source: str
    """Where it came from, for error messages."""

    def __post_init__(self) -> None:
        """Reject keys that could be guessed."""
        if len(self.key) != SECRET_BYTES:
            raise ValueError(f"a shared secret has {SECRET_BYTES} bytes, got {len(self.key)} from {self.source}")

    @classmethod
    def new(cls, source: str) -> Self:
        """Return a secret that nobody knows yet."""
        return cls(secrets.token_bytes(SECRET_BYTES), source)

    @classmethod
    def of_folder(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the secret of a folder; SecretError with the way out if its file is missing or cannot be trusted."""
        path = Path(folder) / SECRET_FILE
        try:
            # Without blocking: a pipe of that name must not hold this process up.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise _unreadable(path, error) from error
        with open(descriptor, "rb") as file:
            _check_rights(path, os.fstat(descriptor))
            content = file.read(_FILE_BYTES + 1)
        try:
            return cls(bytes.fromhex(content.decode("ascii").strip()), str(path))
        except ValueError:
            raise SecretError(
                f"{path} is no shared secret, which is {2 * SECRET_BYTES} hexadecimal digits and a line feed; remove "
                "it and start the trainer again, which writes another"
            ) from None

    @classmethod
    def made_in_folder(cls, folder: str | os.PathLike[str]) -> Self:
        """Return the secret of a folder, and make both if they are missing."""
        make_secret(folder)
        return cls.of_folder(folder)

    def proof(self, claim: bytes) -> bytes:
        """Return 32 bytes that only those can compute who know the secret: HMAC-SHA256 of the claim."""
        return hmac.digest(self.key, claim, "sha256")

    def proves(self, claim: bytes, proof: bytes) -> bool:
        """Whether the proof is that of the claim; takes the same time for every wrong one."""
        return hmac.compare_digest(self.proof(claim), proof)


def make_secret(folder: str | os.PathLike[str]) -> Path:
    """Make a folder and its secret if they are missing, and return the secret's file; of several writers, one wins.

    Whether the file can be trusted is not looked at: only those who use it need to know.
    """
    path = Path(folder) / SECRET_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.path.lexists(path):
        _write_first(path, secrets.token_bytes(SECRET_BYTES))
    return path


def _write_first(path: Path, key: bytes) -> None:
    """Write the file unless another process was faster; others see it whole or not at all."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IRUSR | stat.S_IWUSR)
    try:
        with open(descriptor, "wb") as file:
            # Whatever the umask took away; nothing could be added, since O_EXCL made the file anew.
            os.fchmod(descriptor, stat.S_IRUSR | stat.S_IWUSR)
            file.write(key.hex().encode("ascii") + b"\n")
            file.flush()
            os.fsync(descriptor)
        # A link and no rename: it fails where the file exists, and a secret in use is never replaced.
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without links: two writers at the same moment may each have read another secret.
        os.rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _check_rights(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SecretError(f"{path} is no plain file; remove it and start the trainer again, which writes one")
    if found.st_uid not in (os.geteuid(), 0):
        raise SecretError(
            f"{path} belongs to user {found.st_uid}, who may have chosen its content, and this process runs as user "
            f"{os.geteuid()}; run trainer and server as one user, or give both certificates"
        )
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SecretError(
            f"{path} has mode {stat.S_IMODE(found.st_mode):04o}: others than its owner may use it, and it may be no "
            f"secret any more; remove it and start the trainer again, or, if nobody saw it, `chmod 600 {path}`"
        )


def _unreadable(path: Path, error: OSError) -> SecretError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return SecretError(
            f"{path} is missing: the trainer writes this shared secret with its exports, and both sides read it there; "
            "export again, copy the file along with the export (mode 600), or give both sides certificates"
        )
    return SecretError(
        f"{path} cannot be read ({error.strerror or error}): trainer and server must both be able to; run them as one "
        "user, or give both certificates"
    )
