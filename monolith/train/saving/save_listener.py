"""SaveListener: called before and after the saves of a run."""


class SaveListener:
    """Is told before and after each save of a run; override what is of interest.

    As a listener, `after_save` is called when the files are there. As a guard, it is called however the save ended:
    what `before_save` stopped can go on then.
    """

    def before_save(self, step: int) -> None:
        """Be told that the state after this many steps is about to be saved; an error here means that it is not."""

    def after_save(self, step: int) -> None:
        """Be told that this is over; training may have taken further steps meanwhile."""


class BeforeSaveListener(SaveListener):
    """Lets another listener hear of the begin only."""

    def __init__(self, listener: SaveListener) -> None:
        """Take the other."""
        self._listener = listener

    def before_save(self, step: int) -> None:
        """Tell it."""
        self._listener.before_save(step)


class AfterSaveListener(SaveListener):
    """Lets another listener hear of the end only."""

    def __init__(self, listener: SaveListener) -> None:
        """Take the other."""
        self._listener = listener

    def after_save(self, step: int) -> None:
        """Tell it."""
        self._listener.after_save(step)
