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


class BeforeSaveListener(SaveListener):
    """Passes only `before_save` on to another listener."""

    def __init__(self, listener: SaveListener) -> None:
        """Take the other."""
        self._listener = listener

    def before_save(self, step: int) -> None:
        """Run its `before_save`."""
        self._listener.before_save(step)


class AfterSaveListener(SaveListener):
    """Passes only `after_save` on to another listener."""

    def __init__(self, listener: SaveListener) -> None:
        """Take the other."""
        self._listener = listener

    def after_save(self, step: int) -> None:
        """Run its `after_save`."""
        self._listener.after_save(step)
