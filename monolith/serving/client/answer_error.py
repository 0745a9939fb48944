"""AnswerError: what a server says instead of predictions."""

from monolith.errors import MonolithError


class AnswerError(MonolithError):
    """The server answered with an error; `status` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        """Say what the server said."""
        super().__init__(f"{message} (status {status})")
        self.status = status
