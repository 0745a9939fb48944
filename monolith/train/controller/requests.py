"""What client and server of a controller say to each other, and where the client finds the server."""

import os
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, Self

from monolith.wire import SharedSecret

ADDRESS_FILE: Final = "controller_server_addr.txt"

ALREADY_EXISTS: Final = "ALREADY_EXISTS"
"""Status of a reply to StopTraining where training is stopped already."""

OK: Final = "OK"


class Request(IntEnum):
    """Kinds of requests; the number is the message's type."""

    STOP_TRAINING = 1
    RESUME_TRAINING = 2
    GET_BLOCK_STATUS = 3
    SAVE_CHECKPOINT = 4
    GET_TRAINING_STATUS = 5
    FORGET = 6


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a run listens, and the secret that both sides prove to know.

    The file is readable by its owner alone, so that nobody else on the machine can hold the run up.
    """

    address: str

    secret: SharedSecret

    def write(self, model_dir: str | os.PathLike[str]) -> Path:
        """Write the file, in place of one that a dead run left."""
        path = Path(model_dir) / ADDRESS_FILE
        temporary = path.with_name(f"{path.name}.tmp")
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as file:
            file.write(f"{self.address}\n{self.secret.key.hex()}\n")
        temporary.replace(path)
        return path

    @classmethod
    def read(cls, model_dir: str | os.PathLike[str]) -> Self:
        """Return what a run wrote; FileNotFoundError if none listens."""
        path = Path(model_dir) / ADDRESS_FILE
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is not there: no run in {model_dir} listens; start it with enable_controller=True "
                "(--enable-controller)"
            )
        lines = path.read_text().split()
        if len(lines) != 2:
            raise ValueError(f"{path} must have two lines, an address and a secret, got {len(lines)}")
        return cls(lines[0], SharedSecret(bytes.fromhex(lines[1]), str(path)))
