"""Make a discovery from one line of text, as a setting or a flag has it."""

from collections.abc import Callable
from typing import Final

from monolith.cluster.discovery.files_discovery import FilesServiceDiscovery
from monolith.cluster.discovery.protocol import ServiceDiscovery
from monolith.cluster.discovery.static_discovery import StaticServiceDiscovery

KINDS: Final[dict[str, Callable[[str], ServiceDiscovery]]] = {
    "static": StaticServiceDiscovery.parse,
    "files": FilesServiceDiscovery,
}


def discovery_from(text: str) -> ServiceDiscovery:
    """Return the discovery that "KIND:REST" describes.

    "static:ps=HOST:PORT,HOST:PORT;worker=HOST:PORT" is a list; "files:DIR" is a folder that all processes see.

    >>> discovery_from("static:ps=10.0.0.7:7001").query("ps")
    {0: '10.0.0.7:7001'}
    """
    kind, colon, rest = text.partition(":")
    if not colon or not rest or kind not in KINDS:
        raise ValueError(f"discovery is KIND:REST with a kind of {', '.join(KINDS)}, got {text!r}")
    return KINDS[kind](rest)
