"""JobShape: how many processes a job has; and what became of a wish for another shape. It does not need torch."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self

CLUSTER_FOLDER = "cluster"
"""In model_dir: addresses of the processes, and their secret."""

OUTCOME_FILE = "scale.json"
"""In the cluster's folder of a job: what became of the last `monolith scale`."""

MAX_SERVERS = 65_536
"""The most shards that a table can have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobShape:
    """How many processes of each kind a job has.

    >>> str(JobShape(num_ps=3, num_workers=1))
    'num_ps=3 and num_workers=1'
    """

    num_ps: int
    num_workers: int

    def __post_init__(self) -> None:
        """Reject what is no job."""
        if not 1 <= self.num_ps <= MAX_SERVERS:
            raise ValueError(
                f"a job has 1 to {MAX_SERVERS} parameter servers, one for each shard of its tables, got {self.num_ps}"
            )
        if self.num_workers < 1:
            raise ValueError(f"a job has at least 1 worker, its chief, got {self.num_workers}")

    def __str__(self) -> str:
        return f"num_ps={self.num_ps} and num_workers={self.num_workers}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ScaleOutcome:
    """What became of a request; the chief leaves it in a file, since it ends."""

    request: str
    """Its name."""

    what: Literal["scaled", "over", "called off"]
    """The job has stopped for its new shape; it had come to its end; or it goes on as it was."""

    shape: JobShape
    """That it was asked for."""

    step: int
    """Of the job."""

    last_step: int | None = None
    """Where the job ends, if its settings say so."""

    reason: str = ""
    """Why it was called off."""

    def write(self, folder: Path) -> None:
        """Leave it in the cluster's folder of a job."""
        path = folder / OUTCOME_FILE
        temporary = path.with_name(f"{path.name}.tmp")
        temporary.write_text(json.dumps(asdict(self)))
        os.replace(temporary, path)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return what the last chief left; None if there is nothing."""
        try:
            values = json.loads((folder / OUTCOME_FILE).read_text())
        except FileNotFoundError:
            return None
        return cls(**{**values, "shape": JobShape(**values["shape"])})
