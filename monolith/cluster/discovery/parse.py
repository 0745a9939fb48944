"""Make a discovery from one line of text, as a setting or a flag has it."""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from monolith.cluster.discovery.files_discovery import FilesServiceDiscovery
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.cluster.discovery.static_discovery import StaticServiceDiscovery


def _zookeeper(text: str) -> ServiceDiscovery:
    servers, slash, job = text.rpartition("/")
    if not servers or not job:
        raise ValueError(f"discovery by ZooKeeper is zk:HOST:PORT/JOB, several servers by comma, got 'zk:{text}'")
    # Found when it is used: it needs an optional package.
    found: ServiceDiscovery = import_module("monolith.cluster.discovery.zk_discovery").ZKServiceDiscovery(job, servers)
    return found


KINDS: Final[dict[str, Callable[[str], ServiceDiscovery]]] = {
    "static": StaticServiceDiscovery.parse,
    "files": FilesServiceDiscovery,
    "zk": _zookeeper,
}


def discovery_from(text: str) -> ServiceDiscovery:
    """Return the discovery that "KIND:REST" describes.

    "static:ps=HOST:PORT,HOST:PORT;worker=HOST:PORT" is a list; "files:DIR" is a folder that all processes see;
    "zk:HOST:PORT,HOST:PORT/JOB" is a job's part of ZooKeeper.

    >>> discovery_from("static:ps=10.0.0.7:7001").query("ps")
    {0: '10.0.0.7:7001'}
    """
    kind, colon, rest = text.partition(":")
    if not colon or not rest or kind not in KINDS:
        raise ValueError(f"discovery is KIND:REST with a kind of {', '.join(KINDS)}, got {text!r}")
    return KINDS[kind](rest)
