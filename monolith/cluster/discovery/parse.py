"""Make a discovery from one line of text, as a setting or a flag has it."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Final

from monolith.cluster.discovery.files_discovery import FilesServiceDiscovery
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.cluster.discovery.static_discovery import StaticServiceDiscovery
from monolith.cluster.host_addresses import split_address


def _zookeeper(text: str) -> ServiceDiscovery:
    servers, slash, job = text.rpartition("/")
    if not servers or not job:
        raise ValueError(f"discovery by ZooKeeper is zk:HOST:PORT/JOB, several servers by comma, got 'zk:{text}'")
    # Imported when it is used: it needs an optional package.
    module = import_module("monolith.cluster.discovery.zookeeper.zk_discovery")
    found: ServiceDiscovery = module.ZKServiceDiscovery(job, servers)
    return found


def _consul(text: str) -> ServiceDiscovery:
    agent, slash, job = text.rpartition("/")
    if not job or bool(agent) != bool(slash):
        raise ValueError(f"discovery by Consul is consul:JOB or consul:HOST:PORT/JOB, got 'consul:{text}'")
    module = import_module("monolith.cluster.discovery.consul.consul_discovery")
    found: ServiceDiscovery = module.ConsulServiceDiscovery(job, agent=split_address(agent) if agent else None)
    return found


def _serving(kind: str, text: str) -> ServiceDiscovery:
    place, slash, model = text.rpartition("/")
    servers, second, bzid = place.rpartition("/")
    if not (servers and bzid and model):
        raise ValueError(f"servers of a model are found by {kind}:HOST:PORT/BZID/MODEL, got '{kind}:{text}'")
    module = import_module("monolith.cluster.serving.agent_discovery")
    found: ServiceDiscovery = {AGENTS: module.AgentDiscovery, CONTAINERS: module.ContainerDiscovery}[kind](
        servers, bzid, model
    )
    return found


AGENTS: Final = "agents"
CONTAINERS: Final = "containers"
KINDS: Final[dict[str, Callable[[str], ServiceDiscovery]]] = {
    "static": StaticServiceDiscovery.parse,
    "files": FilesServiceDiscovery,
    "zk": _zookeeper,
    "consul": _consul,
    AGENTS: partial(_serving, AGENTS),
    CONTAINERS: partial(_serving, CONTAINERS),
}


def discovery_from(text: str) -> ServiceDiscovery:
    """Return the discovery that "KIND:REST" describes.

    "static:ps=HOST:PORT,HOST:PORT;worker=HOST:PORT" is a list; "files:DIR" is a folder that all processes see;
    "zk:HOST:PORT,HOST:PORT/JOB" is a job's part of ZooKeeper; "consul:HOST:PORT/JOB", or "consul:JOB" with the agent
    that the environment names, is a job's part of Consul. "agents:HOST:PORT/BZID/MODEL" and
    "containers:HOST:PORT/BZID/MODEL" are the servers of a model that agents register in ZooKeeper.

    >>> discovery_from("static:ps=10.0.0.7:7001").query("ps")
    {0: '10.0.0.7:7001'}
    """
    kind, colon, rest = text.partition(":")
    if not colon or not rest or kind not in KINDS:
        raise ValueError(f"discovery is KIND:REST with a kind of {', '.join(KINDS)}, got {text!r}")
    return KINDS[kind](rest)
