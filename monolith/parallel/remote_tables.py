"""Many tables behind one call, with their rows on table servers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from monolith._core import native
from monolith.closing import Closing
from monolith.embedding import TableConfig
from monolith.embedding.hash_shards import shards_of_ids
from monolith.embedding.table import NO_TIME
from monolith.embedding.tensor_checks import concatenate_ids, concatenate_values, flat_ids, float_rows
from monolith.parallel.batch_key import CallNumbers
from monolith.parallel.dense.control_clients import ControlClients
from monolith.parallel.messages import Hello, TableRequest, tables_of
from monolith.parallel.remote_plan import RemoteBatchPlan, TablesOnServers
from monolith.parallel.server_group import GivenUp, RetryConfig, ServerGroup
from monolith.parallel.server_link import ServerLink
from monolith.wire import Address, Message, SharedSecret, TlsConfig
from monolith.wire.message import Array


class RemoteTables(Closing):
    """Named tables, each spread over all table servers by the hash of its ids; used like a `MultiTable`.

    A batch is one request to each server, with the ids of all tables, each id once. A server that does not answer is
    asked again until the deadline; a change that it had carried out already is not carried out twice.
    """

    def __init__(
        self,
        configs: Mapping[str, TableConfig],
        addresses: Sequence[str | Address],
        *,
        plan_hash: int = 0,
        generation: int = 0,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        half: bool = False,
        retry: RetryConfig | None = None,
        given_up: GivenUp | None = None,
        connects: bool = True,
    ) -> None:
        """Connect to the servers, given in the order of their shards; without `connects`, `connect` does that later.

        With `half`, rows and gradients travel as fp16: half the bytes, three decimal digits; the servers keep fp32.
        With a `generation`, a server of another one is a FencedError. Servers in `given_up` are not waited for again.
        """
        if not addresses:
            raise ValueError(f"got no address of a server for {len(configs)} tables; there must be at least one")
        self.tables = {name: RemoteTable(self, configs[name]) for name in sorted(configs)}
        retry = retry or RetryConfig()
        tables = tables_of(configs)
        self.servers = ServerGroup(
            [
                ServerLink(
                    address,
                    Hello(
                        plan_hash=plan_hash,
                        shard=shard,
                        num_shards=len(addresses),
                        tables=tables,
                        generation=generation,
                    ),
                    secret=secret,
                    tls=tls,
                    connect_timeout_seconds=retry.connect_seconds,
                )
                for shard, address in enumerate(addresses)
            ],
            retry,
            given_up,
        )
        self._proof: dict[str, Any] = {"secret": secret, "tls": tls, "retry": retry}
        self._on_servers = TablesOnServers(
            configs={name: configs[name] for name in self.tables},
            dims=[table.dim for table in self.tables.values()],
            servers=self.servers,
            calls=CallNumbers(),
            plan_hash=plan_hash,
            half=half,
        )
        if connects:
            self.connect()

    def connect(self) -> None:
        """Connect to all servers; those that let no clients in yet are waited for, up to the deadline."""
        self.servers.connect()

    def control_clients(self) -> ControlClients:
        """Return clients of the same servers for other messages; the caller closes them."""
        return ControlClients([link.address for link in self.servers.links], **self._proof)

    @property
    def num_shards(self) -> int:
        """Number of table servers."""
        return len(self.servers.links)

    @property
    def names(self) -> list[str]:
        """Names of the tables, in order."""
        return list(self.tables)

    def __getitem__(self, name: str) -> "RemoteTable":
        """Return one table; an unknown name is a KeyError that lists the known ones."""
        if name not in self.tables:
            raise KeyError(f"there is no table {name!r}; the tables are {', '.join(self.tables)}")
        return self.tables[name]

    def plan(self, ids: Tensor, sizes: Sequence[int], *, dedup: bool = True) -> RemoteBatchPlan:
        """Return the plan of a batch: `ids` flattened in table order, `sizes[t]` of them for table t."""
        return RemoteBatchPlan(self._on_servers, ids, sizes, dedup=dedup)

    def lookup(self, ids: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return one row per id for every table named; unknown ids read as zero."""
        plan = self._plan(ids, dedup=True)
        parts = dict(zip(self.tables, plan.split(plan.lookup()), strict=True))
        return {name: parts[name] for name in ids}

    def assign(self, rows: Mapping[str, tuple[Tensor, Tensor]], *, time: int = NO_TIME) -> native.ChangeResult:
        """Overwrite rows: table name -> (ids, values)."""
        return self._plan_of(rows, dedup=False).assign(self._flat_values(rows), time=time)

    def assign_add(self, rows: Mapping[str, tuple[Tensor, Tensor]], *, time: int = NO_TIME) -> native.ChangeResult:
        """Add to rows: table name -> (ids, values)."""
        return self._plan_of(rows, dedup=False).assign_add(self._flat_values(rows), time=time)

    def apply_gradients(
        self, rows: Mapping[str, tuple[Tensor, Tensor]], *, global_step: int = 0, time: int = NO_TIME
    ) -> native.ChangeResult:
        """Step the optimizers: table name -> (ids, gradients); gradients of a repeated id are summed."""
        plan = self._plan_of(rows, dedup=True)
        return plan.apply_gradients(self._flat_values(rows), global_step=global_step, time=time)

    def num_rows(self) -> dict[str, int]:
        """Return the number of rows of every table, on all servers."""
        return self._add_up("num_rows", self._status())

    def erase(self, ids: Mapping[str, Tensor]) -> int:
        """Remove rows by table; returns how many there were."""
        per_shard: list[dict[str, Tensor]] = [{} for _ in range(self.num_shards)]
        for name, these in ids.items():
            self[name]
            flat = flat_ids(these)
            for part, places in zip(per_shard, _split_by_shard(flat, self.num_shards), strict=True):
                part[name] = flat[places]
        requests = {
            shard: Message(type=TableRequest.ERASE, arrays=self._ids(part))
            for shard, part in enumerate(per_shard)
            if any(len(one) for one in part.values())
        }
        return sum(self._add_up("num_rows", self.servers.ask(requests)).values())

    def contains(self, name: str, ids: Tensor) -> Tensor:
        """Return a bool per id of a table: whether it has a row."""
        found = torch.zeros(len(ids), dtype=torch.bool)
        places = dict(enumerate(_split_by_shard(ids, self.num_shards)))
        requests = {
            shard: Message(type=TableRequest.CONTAINS, arrays=self._ids({name: ids[these]}))
            for shard, these in places.items()
            if len(these)
        }
        for shard, reply in self.servers.ask(requests).items():
            found[places[shard]] = torch.from_numpy(reply.arrays["found"].copy())
        return found

    def evict(self, now: Mapping[str, int | None]) -> int:
        """Remove expired rows of the tables named, counted back from a time, or from the table's newest update."""
        if None in now.values():
            # The newest on any server: one that saw no recent id must not keep rows longer.
            replies = self._status().values()
            newest = np.max([reply.arrays["max_time"] for reply in replies], axis=0)
            now = {name: int(newest[self.names.index(name)]) if time is None else time for name, time in now.items()}
        times = np.array([now.get(name, -1) for name in self.names], np.int64)
        request = {shard: Message(type=TableRequest.EVICT, arrays={"now": times}) for shard in range(self.num_shards)}
        return sum(self._add_up("num_rows", self.servers.ask(request)).values())

    def close(self) -> None:
        """Close the connections; the servers keep the rows."""
        self.servers.close()

    def _status(self) -> dict[int, Message]:
        return self.servers.ask({shard: Message(type=TableRequest.STATUS) for shard in range(self.num_shards)})

    def _add_up(self, array: str, replies: Mapping[int, Message]) -> dict[str, int]:
        totals = np.zeros(len(self.tables), np.int64)
        for reply in replies.values():
            totals += reply.arrays[array]
        return dict(zip(self.names, totals.tolist(), strict=True))

    def _ids(self, ids: Mapping[str, Tensor]) -> dict[str, Array]:
        """Return the arrays of a request that names ids by table."""
        flat, sizes = self._concatenated(ids)
        return {"sizes": np.array(sizes, np.int64), "ids": flat.numpy()}

    def _concatenated(self, ids: Mapping[str, Tensor]) -> tuple[Tensor, list[int]]:
        none = torch.empty(0, dtype=torch.int64)
        return concatenate_ids([ids.get(name, none) for name in self.tables])

    def _plan(self, ids: Mapping[str, Tensor], *, dedup: bool) -> RemoteBatchPlan:
        for name in ids:
            self[name]
        return self.plan(*self._concatenated(ids), dedup=dedup)

    def _plan_of(self, rows: Mapping[str, tuple[Tensor, Tensor]], *, dedup: bool) -> RemoteBatchPlan:
        return self._plan({name: ids for name, (ids, _) in rows.items()}, dedup=dedup)

    def _flat_values(self, rows: Mapping[str, tuple[Tensor, Tensor]]) -> Tensor:
        return concatenate_values(rows, {name: table.dim for name, table in self.tables.items()})


class RemoteTable:
    """A table whose rows are elsewhere; it keeps the promises of `TableProtocol`."""

    def __init__(self, tables: RemoteTables, config: TableConfig) -> None:
        """Be the view of one table among several."""
        self._tables = tables
        self.config = config

    @property
    def dim(self) -> int:
        """Width of a row, in floats."""
        return self.config.dim

    def __len__(self) -> int:
        """Return the number of rows on all servers."""
        return self._tables.num_rows()[self.config.name]

    def lookup(self, ids: Tensor) -> Tensor:
        """Return one row per id, in order; unknown ids read as zero and get no row."""
        return self._tables.lookup({self.config.name: ids})[self.config.name]

    def assign(self, ids: Tensor, values: Tensor, *, time: int = NO_TIME) -> native.ChangeResult:
        """Overwrite rows; the last value of a repeated id stays, new ids get a row."""
        return self._tables.assign(self._rows(ids, values), time=time)

    def assign_add(self, ids: Tensor, values: Tensor, *, time: int = NO_TIME) -> native.ChangeResult:
        """Add to rows; values of a repeated id add up, new ids get a row."""
        return self._tables.assign_add(self._rows(ids, values), time=time)

    def apply_gradients(
        self, ids: Tensor, gradients: Tensor, *, global_step: int = 0, time: int = NO_TIME
    ) -> native.ChangeResult:
        """Step the optimizer once per id with the sum of its gradients; new ids get a row."""
        return self._tables.apply_gradients(self._rows(ids, gradients), global_step=global_step, time=time)

    def erase(self, ids: Tensor) -> int:
        """Remove rows; returns how many there were."""
        return self._tables.erase({self.config.name: ids})

    def contains(self, ids: Tensor) -> Tensor:
        """Return a bool per id: whether it has a row."""
        return self._tables.contains(self.config.name, flat_ids(ids))

    def evict(self, now: int | None = None) -> int:
        """Remove rows not seen for their slot's expiry, counted back from `now` (default: the newest update)."""
        return self._tables.evict({self.config.name: now})

    def _rows(self, ids: Tensor, values: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
        flat_ids(ids)
        return {self.config.name: (ids, float_rows("values", values))}


def _split_by_shard(ids: Tensor, num_shards: int) -> list[Tensor]:
    """Return the places of the ids of every shard, in order."""
    shards = shards_of_ids(ids, num_shards)
    return [torch.nonzero(shards == shard).view(-1) for shard in range(num_shards)]
