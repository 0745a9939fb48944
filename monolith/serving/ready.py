"""What a server says of itself when it is about to answer."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadyModel:
    """A model that a server answers for."""

    name: str
    version: int
    sync_address: str | None
    """Where it takes deltas."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """What a server says of itself when it is about to answer; also the content of the ready file."""

    model: str
    """The first model."""

    version: int
    host: str
    port: int
    sync_address: str | None
    """Where the first model takes deltas."""

    pid: int

    models: tuple[ReadyModel, ...]

    @property
    def url(self) -> str:
        """Where to ask."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @classmethod
    def of(cls, models: Sequence[ReadyModel], host: str, port: int) -> Self:
        """Return what this process says when it serves these models."""
        first = models[0]
        return cls(
            model=first.name,
            version=first.version,
            host=host,
            port=port,
            sync_address=first.sync_address,
            pid=os.getpid(),
            models=tuple(models),
        )

    def write(self, path: Path) -> None:
        """Write the ready file; it appears complete."""
        unfinished = path.with_name(f"{path.name}.tmp")
        unfinished.write_text(json.dumps({**asdict(self), "url": self.url}))
        unfinished.replace(path)
