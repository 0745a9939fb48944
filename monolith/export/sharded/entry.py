"""The entry of a version that several processes serve: dense weights here, rows on the replicas of shards."""

from collections.abc import Mapping
from typing import cast

from monolith.cluster.discovery import ServiceDiscovery
from monolith.delta import TakenPart
from monolith.embedding import MultiTable, TableConfig
from monolith.export.description import Description
from monolith.export.load import RowsElsewhere
from monolith.export.versions import shard_folder
from monolith.parallel.replicas.replicated_tables import FindReplicas, ReadConfig, ReadCounts, ReplicatedTables
from monolith.wire import SharedSecret, TlsConfig

ENTRY = "entry"
"""What entries are called where processes find each other."""

TAKEN_BY_ENTRY = TakenPart(None, dense=True)
"""What deltas bring to an entry: dense weights."""


def replicas_of(discovery: ServiceDiscovery) -> FindReplicas:
    """Return what looks for the replicas of a shard: shard 1 is registered as "ps_1", with an index per replica."""
    return lambda shard: list(discovery.query(shard_folder(shard)).values())


def rows_on_replicas(
    find: FindReplicas,
    *,
    secret: SharedSecret | None = None,
    tls: TlsConfig | None = None,
    config: ReadConfig | None = None,
    is_live: bool = False,
) -> RowsElsewhere:
    """Return what `load_export` takes for `rows`: tables whose rows are read from the replicas of each shard.

    Loading is a ShardAwayError unless each shard has a replica that serves the version. If the model `is_live`, because
    deltas change its dense weights, it reads the newest rows of its plan, of no version in particular.
    """
    counts = ReadCounts()  # of all versions: a counter does not go back

    def rows(description: Description, configs: Mapping[str, TableConfig]) -> MultiTable:
        if not description.shards:
            raise ValueError(
                f"version {description.version} is one folder with all rows, and has no shards; serve it without "
                "--shards, or export with --export-mode distributed"
            )
        tables = ReplicatedTables(
            configs,
            len(description.shards),
            find,
            plan_hash=description.plan_hash,
            version=0 if is_live else description.version,
            counts=counts,
            secret=secret,
            tls=tls,
            config=config,
        )
        tables.require_replicas()
        # It has what a lookup needs; nothing else is asked of the tables of an entry.
        return cast(MultiTable, tables)

    return rows
