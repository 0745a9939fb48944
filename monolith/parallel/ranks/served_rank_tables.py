"""Many tables behind one call, for ranks that keep their rows on parameter servers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from torch import Tensor

from monolith._core import native
from monolith.embedding import MultiTable, TableConfig
from monolith.embedding.table import Table
from monolith.parallel.batch_key import BatchKey
from monolith.parallel.ranks.exchange import Exchange
from monolith.parallel.ranks.rank_tables import RankTables
from monolith.parallel.remote_plan import RemoteBatchPlan
from monolith.parallel.remote_tables import RemoteTable, RemoteTables


class ServedRankTables(RankTables):
    """As `RankTables`, but an id's owner has its row on a parameter server.

    One rank alone pulls and pushes a row, with the gradients of all ranks in one sum. So a row is stepped once per step
    of the job, and its next pull comes after its last push without a barrier. A lost server is a TimeoutError: a
    ConnectionError would mean another rank.
    """

    def __init__(self, tables: RemoteTables, exchange: Exchange, *, average: bool = True) -> None:
        """Take the tables of all parameter servers; every rank has its own connections to them."""
        self.servers = tables
        self._views = {name: _SharedTable(tables, one.config, exchange) for name, one in tables.tables.items()}
        super().__init__(cast(MultiTable, tables), exchange, average=average)

    @property
    def tables(self) -> dict[str, Table]:
        """All rows of each table; all ranks evict together."""
        return cast(dict[str, Table], self._views)

    def num_rows(self) -> dict[str, int]:
        """Return the number of rows of every table, on all servers."""
        return self.servers.num_rows()

    def over(self, exchange: Exchange) -> "ServedRankTables":
        """Return the same tables, whose new plans go through another exchange."""
        return ServedRankTables(self.servers, exchange, average=self.average)

    def plan_own(self, ids: Tensor, sizes: Sequence[int]) -> RemoteBatchPlan:
        """Return the plan of the ids that this rank asks the servers for."""
        return self.servers.plan(ids, sizes)

    def look_up_own(self, plan: Any) -> Tensor:
        """Pull the rows of such a plan."""
        with _servers():
            return super().look_up_own(plan)

    def step_own(
        self, plan: Any, gradients: Tensor, *, global_step: int, time: int, key: BatchKey | None
    ) -> native.ChangeResult:
        """Push gradients; a server skips those of a batch that it has applied."""
        with _servers():
            return cast(RemoteBatchPlan, plan).apply_gradients(gradients, global_step=global_step, time=time, key=key)

    def _counts_ids(self) -> bool:
        return any(link.counted for link in self.servers.servers.links)


class _SharedTable(RemoteTable):
    """A table on parameter servers whose expired rows rank 0 removes, while all others wait."""

    def __init__(self, tables: RemoteTables, config: TableConfig, exchange: Exchange) -> None:
        super().__init__(tables, config)
        self._exchange = exchange

    def evict(self, now: int | None = None) -> int:
        """Remove expired rows, after the pushes and before the pulls of all ranks; the number is 0 but for rank 0."""
        self._exchange.barrier()
        with _servers():
            count = 0 if self._exchange.rank else super().evict(now)
        self._exchange.barrier()
        return count


@contextmanager
def _servers() -> Iterator[None]:
    try:
        yield
    except ConnectionError as error:
        raise TimeoutError(f"a parameter server is lost: {error}") from error
