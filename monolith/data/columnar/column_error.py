"""ColumnError: what can be wrong with a column or a value of a file."""

from monolith.errors import MonolithError


class ColumnError(MonolithError, ValueError):
    """A column is not there, is of another type, or lacks a value; no event of its batch was yielded."""

    def __init__(self, problem: str, *, row: int | None = None) -> None:
        """Say what is wrong, and in which of the checked rows."""
        super().__init__(problem)
        self.problem = problem
        self.row = row

    def within(self, place: str) -> "ColumnError":
        """Return the same error with the place in front."""
        return ColumnError(f"{place}: {self.problem}")
