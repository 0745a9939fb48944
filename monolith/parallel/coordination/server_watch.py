"""ServerWatch: notices lost parameter servers while nobody else asks them anything."""

import threading
from collections.abc import Callable, Sequence

from monolith.closing import Closing
from monolith.parallel.remote_shard import RemoteShard


class ServerWatch(Closing):
    """Asks all servers how they are, as long as `is_idle` says that nobody else does; the first loss ends it.

    A chief that waits for events would otherwise learn of a loss with the next event.
    """

    def __init__(
        self,
        shards: Sequence[RemoteShard],
        *,
        is_idle: Callable[[], bool],
        on_loss: Callable[[Exception], None],
        every_seconds: float = 2.0,
    ) -> None:
        """Start watching; `on_loss` is called at most once, from another thread."""
        self._shards = [shard.another() for shard in shards]
        self._is_idle, self._on_loss, self._every_seconds = is_idle, on_loss, every_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="parameter-server-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching. A question under way ends by itself: its server may be silent for long."""
        self._closing.set()

    def _run(self) -> None:
        try:
            while not self._closing.wait(self._every_seconds):
                for shard in self._shards if self._is_idle() else ():
                    shard.progress()  # one that was started anew answers too, and has none
        except Exception as error:  # noqa: BLE001  the thread that trains raises it
            if not self._closing.is_set():
                self._on_loss(error)
        finally:
            for shard in self._shards:
                shard.close()
