"""SaveListener: called before and after the saves of a run."""


class SaveListener:
    """Runs before and after each save of a run; override the methods you need.

    For a listener, `after_save` runs after each successful save. For a guard, it runs after every save, failed or not,
    so that it can undo what `before_save` did.
    """

    def before_save(self, step: int) -> None:
        """Run before the state after `step` steps is saved; an error raised here prevents the save."""

    def after_save(self, step: int) -> None:
        """Run after that save has ended; training may have taken further steps meanwhile."""

    def after_dense_save(self, step: int) -> None:
        """Run after dense weights alone were saved."""
