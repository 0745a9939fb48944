"""AgentConfig: what an agent is."""

from dataclasses import dataclass

from monolith.cluster.serving.records import Container, SavedModel, shard_of
from monolith.wire import Address, TlsConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentConfig:
    """What an agent is."""

    layout: str
    """Name of the layout whose models it serves."""

    container: Container
    replica: int = 0
    """Number of this replica; no other agent that serves the same parts has it."""

    shard_id: int = 0
    """Of the published shards `ps_i`, it serves those where `i % num_shards` is this."""

    num_shards: int = 1
    """Agents, or groups of them, that share out the shards of a layout; 1 serves all of them."""

    host: str = "127.0.0.1"
    """Where its servers listen; 0.0.0.0 is all networks."""

    tls: TlsConfig | None = None
    """Certificates for rows and deltas; without them, its servers must be on this machine."""

    interval_seconds: float = 1.0
    """How often it looks at ZooKeeper and its servers."""

    max_pause_seconds: float = 30.0
    """A server that keeps ending is started again after ever longer pauses, up to this."""

    def __post_init__(self) -> None:
        """Reject values with which no server could start, or no shard would be served."""
        if not 0 <= self.shard_id < self.num_shards:
            raise ValueError(
                f"shard_id must be 0 to num_shards - 1, got shard_id {self.shard_id}, num_shards {self.num_shards}"
            )
        if self.tls is None and not Address(self.host).is_local:
            raise ValueError(
                f"servers at {self.host} take rows and deltas from other machines, which needs certificates: pass "
                "tls (--tls-cert, --tls-key, --tls-ca), or listen at 127.0.0.1"
            )

    def serves(self, model: SavedModel) -> bool:
        """Return whether a part that is published for the layout is this agent's: every entry, and its shards."""
        shard = shard_of(model.sub_graph)
        return shard is None or shard % self.num_shards == self.shard_id
