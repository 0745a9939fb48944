"""Saving and restoring a model whose rows lie in several processes; after a failure only the new ones restore."""

from monolith.checkpoint.shards.partial_recovery import PartialRecoverySaver, PsMonitor
from monolith.checkpoint.shards.shards_saver import ShardsSaver, load_into_shards
from monolith.checkpoint.shards.table_shard import Shard, TableShard

__all__ = ["PartialRecoverySaver", "PsMonitor", "Shard", "ShardsSaver", "TableShard", "load_into_shards"]
