"""Closing: what is closed when the block that opened it ends."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Has a `close`; as a context manager it closes when the block ends, with or without an error."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds; a second call does nothing."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
