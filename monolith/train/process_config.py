"""ProcessConfig: the threads of torch in this process."""

import warnings
from dataclasses import dataclass

import torch

DEFAULT_INTRA_OP_THREADS = 8
DEFAULT_INTER_OP_THREADS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessConfig:
    """The threads of torch in this process; None leaves them as they are."""

    intra_op_threads: int | None = None
    """Threads that share one operation."""

    inter_op_threads: int | None = None
    """Operations that run side by side; torch takes it once, before its first parallel work."""

    @classmethod
    def of(cls, intra_op_threads: int, inter_op_threads: int) -> "ProcessConfig":
        """Return the meaning of the specification's settings; its defaults leave torch alone."""
        return cls(
            intra_op_threads=None if intra_op_threads == DEFAULT_INTRA_OP_THREADS else intra_op_threads,
            inter_op_threads=None if inter_op_threads == DEFAULT_INTER_OP_THREADS else inter_op_threads,
        )

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        for name in ("intra_op_threads", "inter_op_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    def apply(self) -> None:
        """Set the threads."""
        if self.intra_op_threads is not None:
            torch.set_num_threads(self.intra_op_threads)
        if self.inter_op_threads is not None and torch.get_num_interop_threads() != self.inter_op_threads:
            try:
                torch.set_num_interop_threads(self.inter_op_threads)
            except RuntimeError:
                warnings.warn(
                    f"inter_op_parallelism_threads={self.inter_op_threads} has no effect: torch takes it once in a "
                    f"process, and has {torch.get_num_interop_threads()}; start the run in another process",
                    stacklevel=3,
                )
