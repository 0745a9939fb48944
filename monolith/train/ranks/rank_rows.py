"""RankRows: where the rows of ranks are, on the ranks themselves or on parameter servers, and how rank 0 saves them."""

import json
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from monolith.checkpoint import claim_generation
from monolith.model import LookupPlan
from monolith.parallel import ParameterServer, RemoteShard
from monolith.parallel.ranks import Exchange, RankTables, ServedRankTables
from monolith.train.job.served_state import Servers
from monolith.train.ranks.rank_job import RankJob, RankServers
from monolith.train.state import StateConfig

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class RankRows:
    """The rows of a synchronous job, as one rank uses them."""

    tables: RankTables

    shards: Sequence[RemoteShard] = ()
    """All processes that hold rows, in order; on rank 0 alone."""

    generation: int | None = None
    """That parameter servers are in; ranks that hold the rows themselves claim one when they are restored."""

    def shut_down_servers(self) -> None:
        """Let the parameter servers end, if there are any."""
        for shard in self.shards if self.generation is not None else ():
            try:
                shard.shut_down()
            except Exception as error:  # noqa: BLE001  it is gone already, or will be killed
                _log.warning("a parameter server could not be asked to end: %s", error)


def make_rows(
    exchange: Exchange, job: RankJob, plan: LookupPlan, config: StateConfig, *, cleanup: ExitStack
) -> RankRows:
    """Make empty tables; all ranks call this at the same time. `cleanup` closes what is opened."""
    if job.servers is None:
        return _spread_over_ranks(exchange, job, plan, config.initial_capacity, cleanup)
    return _on_servers(exchange, job, job.servers, plan, config, cleanup)


def _spread_over_ranks(
    exchange: Exchange, job: RankJob, plan: LookupPlan, capacity: int, cleanup: ExitStack
) -> RankRows:
    server = cleanup.enter_context(
        ParameterServer(job.listen_at, secret=job.secret, tls=job.tls, insecure=job.insecure)
    )
    addresses = exchange.gather_texts(str(server.address))
    shards: list[RemoteShard] = []
    if exchange.rank == 0:
        shards = [cleanup.enter_context(_shard(one, job)) for one in addresses]
        _init(shards, plan, capacity, generation=0)  # no others ask for the rows; for serving, the restore counts
    exchange.barrier()
    return RankRows(tables=RankTables(server.shard.tables, exchange, average=job.averages_rows), shards=shards)


def _on_servers(
    exchange: Exchange, job: RankJob, servers: RankServers, plan: LookupPlan, config: StateConfig, cleanup: ExitStack
) -> RankRows:
    # Every rank waits: one that waited for rank 0 instead might give it up.
    addresses = servers.find()
    shards: list[RemoteShard] = []
    said = None
    if exchange.rank == 0:
        # Before anything is restored: clients of earlier generations are cut off by it.
        generation = claim_generation(servers.folder, max(1, config.first_generation))
        shards = [cleanup.enter_context(_shard(one, job)) for one in addresses]
        _init(shards, plan, config.initial_capacity, generation=generation)
        said = json.dumps({"addresses": addresses, "generation": generation}).encode()
    found = json.loads(exchange.send_from_first(said))
    connected = Servers(**found, secret=job.secret, tls=job.tls, retry=job.retry, half=job.half).tables(plan)
    tables = ServedRankTables(cleanup.enter_context(connected), exchange, average=job.averages_rows)
    return RankRows(tables=tables, shards=shards, generation=found["generation"])


def _shard(address: str, job: RankJob) -> RemoteShard:
    return RemoteShard(address, secret=job.secret, tls=job.tls, retry=job.retry)


def _init(shards: Sequence[RemoteShard], plan: LookupPlan, capacity: int, *, generation: int) -> None:
    count = len(shards)
    for index, shard in enumerate(shards):
        shard.init(plan, index, count, generation=generation, anew=True, initial_capacity=capacity // count)
        shard.mark_initialized()
