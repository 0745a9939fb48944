"""ServedPart: a part of a published model, and the command that serves it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from monolith.cluster.discovery.parse import AGENTS
from monolith.cluster.serving.records import ENTRY, PS, SavedModel, shard_of
from monolith.wire import Address


class Addresses(NamedTuple):
    """Where a server is reached."""

    http: str
    """Requests, or of a shard health and figures."""

    deltas: str
    """What a trainer sends; of a shard also what entries read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedPart:
    """A part of a model, which one process serves.

    >>> part = ServedPart(model=SavedModel("movie", "ps_1"), base="/exports")
    >>> part.servers(Addresses("h:80", "h:81"))
    [('ps', 1, 'h:81')]
    """

    model: SavedModel
    base: str
    """Folder of the versions of the whole model."""

    rows: str | None = None
    """Where an entry finds the shards with its rows (`monolith serve --shards`); None if it holds its rows itself."""

    @property
    def shard(self) -> int | None:
        """The shard whose rows it has; None for an entry."""
        return shard_of(self.model.sub_graph)

    def arguments(self, *, host: str, replica: int) -> list[str]:
        """Return the command and its options; ports are for the system to choose."""
        at, listen = ["--host", host, "--port", "0", "--wait"], str(Address(host, 0))
        if self.shard is not None:
            shard = ["--shard", str(self.shard), "--replica", str(replica), "--listen", listen]
            return ["serve-shard", self.base, *shard, *at]
        name = self.model.model_name
        entry = ["--model", f"{name}={self.base}", "--sync-address", f"{name}={listen}"]
        rows = [] if self.rows is None else ["--shards", f"{name}={self.rows}", "--entry-index", str(replica)]
        return ["serve", *entry, *rows, *at]

    def servers(self, addresses: Addresses) -> list[tuple[str, int, str]]:
        """Return what to register of it: the type, the task and the address of each server that it is."""
        if self.shard is not None:
            return [(PS, self.shard, addresses.deltas)]
        if self.rows is not None:
            # The process itself registers where it takes dense weights, with the others of its discovery.
            return [(ENTRY, 0, addresses.http)]
        # Requests go to the one, and the rows of a trainer to the other: as those of the one shard there is.
        return [(ENTRY, 0, addresses.http), (PS, 0, addresses.deltas)]


def rows_of(model: SavedModel, declared: Collection[SavedModel], *, place: str) -> str | None:
    """Return where an entry finds its rows: at agents, if shards of its model are declared; else None.

    >>> entry, shard = SavedModel("movie", "entry"), SavedModel("movie", "ps_0")
    >>> rows_of(entry, [entry, shard], place="zk1:2181/bz"), rows_of(entry, [entry], place="zk1:2181/bz")
    ('agents:zk1:2181/bz/movie', None)
    """
    names = [one.sub_graph for one in declared if one.model_name == model.model_name]
    if model.sub_graph != ENTRY or all(shard_of(name) is None for name in names):
        return None
    return f"{AGENTS}:{place}/{model.model_name}"
