"""The same tables elsewhere: a server for the tables of a shard, and the client that uses many of them as one."""

from monolith.parallel.batch_key import BatchKey
from monolith.parallel.dense_shard import DenseShard
from monolith.parallel.parameter_server import ParameterServer
from monolith.parallel.remote_dense import RemoteDense
from monolith.parallel.remote_shard import RemoteShard
from monolith.parallel.remote_tables import RemoteTables
from monolith.parallel.server_group import RetryConfig
from monolith.parallel.table_server import TableServer

__all__ = [
    "BatchKey",
    "DenseShard",
    "ParameterServer",
    "RemoteDense",
    "RemoteShard",
    "RemoteTables",
    "RetryConfig",
    "TableServer",
]
