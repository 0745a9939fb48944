"""NoSaver: the saves of a process whose state another one saves."""


class NoSaver:
    """Has the methods of a `RunSaver`, and saves nothing."""

    def begin(self) -> None:
        """Write nothing."""

    def save(self) -> None:
        """Write nothing."""

    def save_dense(self) -> None:
        """Write nothing."""

    def after_step(self) -> None:
        """Write nothing."""

    def end(self) -> None:
        """Write nothing."""

    def begin_anew(self) -> None:
        """Wait for nothing."""

    def settle(self) -> None:
        """Wait for nothing."""

    def close(self) -> BaseException | None:
        """Return no error."""
        return None
