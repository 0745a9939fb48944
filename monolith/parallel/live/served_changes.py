"""ServedChanges: what a parameter server does for serving, whenever the chief asks for it."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from monolith._core import native
from monolith.closing import Closing
from monolith.delta import DeltaPart, DeltaSender, DeltaSettings
from monolith.delta.link import DeltaLink
from monolith.delta.serving_tables import to_serving
from monolith.embedding import MultiTable
from monolith.embedding.hash_shards import HashShard
from monolith.wire import Address

DELTA_SECONDS = 10.0
"""A target that takes longer to apply one message counts as failed."""

_MAX_AT_ONCE = 8
"""Pushes and exports that a server carries out at the same time."""

_MAX_REMEMBERED = 64
"""Ended pieces of work whose result can still be asked for."""


class ServedChanges(Closing):
    """Sends the rows of one shard to serving targets, and writes them for a version, both in the background."""

    def __init__(self, tables: MultiTable, place: HashShard, *, plan_hash: int, generation: int) -> None:
        """Follow nothing yet."""
        self.work: dict[str, Future[dict[str, Any]]] = {}
        """By the names that the chief gave."""
        self._tables, self._place = tables, place
        self._plan_hash, self.generation = plan_hash, generation
        self._sender: DeltaSender | None = None
        self._settings: DeltaSettings | None = None
        self._pool = ThreadPoolExecutor(
            _MAX_AT_ONCE, thread_name_prefix="parameter-server-live", initializer=native.work_alone
        )

    def follow(self, targets: Sequence[str], settings: DeltaSettings) -> None:
        """Count changes for these targets from now on; those that it knows lose nothing."""
        if self._sender is not None and settings == self._settings:
            self._sender.retarget(targets)
            return
        self._stop_following()
        self._settings = settings
        self._sender = DeltaSender(
            self._tables,
            part=DeltaPart(*self._place),
            plan_hash=self._plan_hash,
            generation=self.generation,
            targets=targets,
            settings=settings,
        )

    def push(self, name: str, target: str) -> None:
        """Begin to bring a target up to date."""
        link = self._link(target)
        self._begin(name, lambda: _push(link))

    def export(self, name: str, folder: str, *, skip_zero_embedding: bool) -> None:
        """Begin to write the tables into the folder of a version."""
        self._begin(name, lambda: self._export(Path(folder), skip_zero_embedding))

    def close(self) -> None:
        """Take no further work; what is under way ends by itself: targets refuse it once a later generation came."""
        self._stop_following()
        self._pool.shutdown(wait=False)

    def _begin(self, name: str, work: Any) -> None:
        if name not in self.work:  # else the request came a second time
            for old in [one for one, future in self.work.items() if future.done()][:-_MAX_REMEMBERED]:
                del self.work[old]
            self.work[name] = self._pool.submit(work)

    def _link(self, target: str) -> DeltaLink:
        address = Address.parse(target)
        links = [] if self._sender is None else self._sender.links
        for link in links:
            if link.address == address:
                return link
        raise ValueError(
            f"this parameter server follows no changes for {address}, only for {[str(one.address) for one in links]}"
        )

    def _export(self, folder: Path, skip_zero_embedding: bool) -> dict[str, Any]:
        # First: whatever it counts is in the rows that are read below.
        sequence = 0 if self._sender is None else self._sender.begin_export()
        num_rows = {}
        for name, table in self._tables.tables.items():  # one after the other: only one is in memory twice
            served = to_serving(table, skip_zero_embedding=skip_zero_embedding)
            num_rows[name] = len(served)
            served.freeze().save_shard(
                folder / name, self._place, plan_hash=self._plan_hash, generation=self.generation
            )
        return {"sequence": sequence, "num_rows": num_rows}

    def _stop_following(self) -> None:
        if self._sender is not None:
            # In the background: a push under way is not waited for.
            self._pool.submit(self._sender.close)
            self._sender = None


def _push(link: DeltaLink) -> dict[str, Any]:
    delivery = link.push()
    return {
        "position": [delivery.position.generation, delivery.position.sequence],
        "num_rows": delivery.num_rows,
        "num_erased": delivery.num_erased,
        "full": delivery.full,
    }
