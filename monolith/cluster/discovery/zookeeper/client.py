"""A connection to ZooKeeper, and the removal of what old jobs left there. The one module that imports kazoo."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

try:
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.protocol.states import KazooState
    from kazoo.recipe.cache import TreeCache, TreeEvent
    from kazoo.retry import KazooRetry
except ImportError as error:
    raise ImportError(
        "ZooKeeper needs the kazoo package: pip install 'monolith-recsys[zookeeper]', or choose another discovery",
        name="kazoo",
    ) from error

from monolith.cluster.discovery.zookeeper.servers import default_zk_servers
from monolith.cluster.platform.zk_environment import get_zk_auth_data

__all__ = [
    "BASE_PATH",
    "ZK_TROUBLE",
    "KazooException",
    "KazooState",
    "KazooTimeoutError",
    "MonolithKazooClient",
    "NoNodeError",
    "NodeExistsError",
    "TreeCache",
    "TreeEvent",
    "answer_in_time",
    "clear_zk_path",
    "connected_client",
]

BASE_PATH = "/monolith"
ZK_TROUBLE = (KazooException, KazooTimeoutError)
"""What a request may raise while ZooKeeper is away."""

_MAX_PAUSE_SECONDS = 3.0
_KEPT_UNUSED = timedelta(weeks=9)
_log = logging.getLogger(__name__)


class MonolithKazooClient(KazooClient):  # type: ignore[misc]
    """A KazooClient that logs in with the credentials of ZK_AUTH, unless `auth_data` says otherwise."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("auth_data") is None:
            kwargs["auth_data"] = set(get_zk_auth_data() or ())
        super().__init__(*args, **kwargs)


def connected_client(
    zk_server: str | None,
    *,
    connect_seconds: float = 15,
    session_seconds: float = 10,
    max_tries: int = 3,
    delay: float = 5,
    interrupt: Callable[[], bool] | None = None,
) -> MonolithKazooClient:
    """Return a client that is connected.

    Its `retry` repeats a command `max_tries` times if the connection breaks, first after `delay` seconds, and gives up
    as soon as `interrupt` returns True.

    Raises:
        ValueError: no server is named, here or for the site.
        KazooTimeoutError: none answered within `connect_seconds`.
    """
    servers = zk_server or default_zk_servers()
    if not servers:
        raise ValueError('no ZooKeeper server is named: set zk_server="HOST:2181", several by comma')
    rule = KazooRetry(max_tries=max_tries, delay=delay, interrupt=interrupt)
    # However long the servers were away, they are found again in a few seconds.
    patient = KazooRetry(max_tries=-1, delay=0.1, backoff=2, max_delay=_MAX_PAUSE_SECONDS)
    client = MonolithKazooClient(servers, timeout=session_seconds, command_retry=rule, connection_retry=patient)
    try:
        client.start(timeout=connect_seconds)
    except KazooTimeoutError:
        client.close()
        raise KazooTimeoutError(
            f"no ZooKeeper server of {servers} answered within {connect_seconds:g} seconds; start one, or correct "
            "the address"
        ) from None
    return client


def answer_in_time(client: MonolithKazooClient, seconds: float, command: str, *args: Any, **kwargs: Any) -> Any:
    """Return the answer to a command; KazooTimeoutError if the connection does not come back within `seconds`."""

    # kazoo's plain commands wait without a limit while there is no connection.
    def attempt() -> Any:
        return getattr(client, f"{command}_async")(*args, **kwargs).get(timeout=seconds)

    return client.retry(attempt)


def clear_zk_path(zk_server: str | None, job_name: str, force_clear_zk_path: bool) -> None:
    """Remove what jobs left that nobody touched for nine weeks, and with `force_clear_zk_path` what this job left.

    A job with a living process is not old, however long ago it started. (The original removed it.)

    Raises:
        ValueError: processes are registered for this job, and `force_clear_zk_path` is False.
    """
    client = connected_client(zk_server)
    try:
        client.ensure_path(BASE_PATH)
        for name in client.get_children(BASE_PATH):
            _remove_if_old(client, f"{BASE_PATH}/{name}")
        path = f"{BASE_PATH}/{job_name}"
        if force_clear_zk_path:
            client.delete(path, recursive=True)
        elif client.exists(path) and (children := client.get_children(path)):
            raise ValueError(f"there are [{','.join(sorted(children))}] in monolith zk path")
    finally:
        client.stop()
        client.close()


def _remove_if_old(client: MonolithKazooClient, path: str) -> None:
    try:
        children, stat = client.get_children(path, include_data=True)
        if stat.mtime / 1000 + _KEPT_UNUSED.total_seconds() >= time.time():
            return
        found = [client.exists(f"{path}/{child}") for child in children]
        # The node of a living process belongs to its session; it is gone when the session is.
        if not any(one is not None and one.ephemeralOwner for one in found):
            client.delete(path, recursive=True)
            _log.info("removed %s, which nobody touched for nine weeks", path)
    except KazooException as error:
        _log.warning("cannot look after %s: %r", path, error)
