"""How the processes of a job find each other."""

from monolith.cluster.discovery.files_discovery import FilesServiceDiscovery
from monolith.cluster.discovery.parse import discovery_from
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.cluster.discovery.static_discovery import StaticServiceDiscovery
from monolith.cluster.discovery.waiting import wait_for

__all__ = [
    "FilesServiceDiscovery",
    "ServiceDiscovery",
    "StaticServiceDiscovery",
    "discovery_from",
    "wait_for",
]
