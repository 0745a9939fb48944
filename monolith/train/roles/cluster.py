"""ListedCluster: a cluster whose addresses are known before its processes start."""

from dataclasses import dataclass, field

from monolith.cluster.discovery import ServiceDiscovery, StaticServiceDiscovery
from monolith.cluster.discovery.mlp_discovery import MLPServiceDiscovery
from monolith.cluster.discovery.tf_config import TfConfigServiceDiscovery

_NAMES = ("ps", "chief", "worker", "dispatcher", "dsworker")


@dataclass(frozen=True, kw_only=True, slots=True)
class ListedCluster:
    """The servers and workers of a job, by address; a chief that is listed apart is worker 0."""

    servers: list[str]
    workers: list[str]

    dispatchers: list[str] = field(default_factory=list)
    """One, if the job has a data service of its own."""

    dsworkers: list[str] = field(default_factory=list)

    role: tuple[str, int] | None = None
    """Server type and index of this process; None if the list does not say it."""

    @classmethod
    def of(cls, discovery: ServiceDiscovery | None) -> "ListedCluster | None":
        """Return what a discovery lists; None for one where processes register.

        >>> ListedCluster.of(StaticServiceDiscovery.parse("chief=h0:1;worker=h1:1;ps=h2:1")).workers
        ['h0:1', 'h1:1']
        """
        if isinstance(discovery, StaticServiceDiscovery):
            listed = {name: list(discovery.query(name).values()) for name in _NAMES}
            return cls(
                servers=listed["ps"],
                workers=listed["chief"] + listed["worker"],
                dispatchers=listed["dispatcher"],
                dsworkers=listed["dsworker"],
            )
        if isinstance(discovery, TfConfigServiceDiscovery):
            return cls(
                servers=list(discovery.query("ps").values()),
                workers=list(discovery.query("worker").values()),
                role=(discovery.server_type, discovery.index),
            )
        return _of_mlp(discovery) if isinstance(discovery, MLPServiceDiscovery) else None

    def discovery(self) -> StaticServiceDiscovery:
        """Return the same as a list with the names that a job uses."""
        return StaticServiceDiscovery(
            {"ps": self.servers, "worker": self.workers, "dispatcher": self.dispatchers, "dsworker": self.dsworkers}
        )


def _of_mlp(discovery: MLPServiceDiscovery) -> ListedCluster:
    if not discovery.server_type:
        raise ValueError(
            "discovery_type=mlp reads role and addresses from MLP_ROLE, MLP_PS_NUM, MLP_PS_0_PRIMARY_HOST and so on, "
            "and MLP_ROLE is not set; start the process on the platform, or choose another discovery"
        )
    listed = {name: discovery.listed(name) for name in _NAMES}
    server_type, index = discovery.server_type, discovery.index
    if server_type == "chief":
        server_type = "worker"
    elif server_type == "worker":
        index += len(listed["chief"])
    return ListedCluster(
        servers=listed["ps"],
        workers=listed["chief"] + listed["worker"],
        dispatchers=listed["dispatcher"],
        dsworkers=listed["dsworker"],
        role=(server_type, index),
    )
