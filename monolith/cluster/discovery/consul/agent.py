"""One Consul agent as discovery uses it. The one module that imports consul."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

try:
    import consul
except ImportError as error:
    raise ImportError(
        "Consul needs the py-consul package: pip install 'monolith-recsys[consul]', or choose another discovery",
        name="consul",
    ) from error

from monolith.cluster.discovery.consul.retry import retry_with_socket_error
from monolith.cluster.host_addresses import concat_ip_and_port

Result = TypeVar("Result")

TTL_SECONDS: Final = 60
"""A registration without a sign of life for so long is shown to nobody."""

_FORGET_AFTER: Final = "10m"
_ANSWER_SECONDS: Final = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsulEntry:
    """One registration."""

    name: str
    index: int
    address: str
    service_id: str

    node: str
    """Name of the agent that holds it."""

    agent_host: str
    """Where that agent is."""

    order: int
    """Later registrations have larger numbers."""


class ConsulAgent:
    """An agent at host and port; a request that a socket error ends is repeated by the retry rule."""

    def __init__(self, host: str, port: int) -> None:
        self.port = port
        self._host = concat_ip_and_port(host, port).rpartition(":")[0]
        self._consul = consul.Consul(host=self._host, port=port, connections_timeout=_ANSWER_SECONDS)
        # The agent is on this host or beside it: proxies of the environment lead elsewhere.
        self._consul.http.session.trust_env = False

    def node(self) -> str:
        """Return the name under which the agent takes part in the cluster."""
        return str(self._ask(self._consul.agent.self)["Config"]["NodeName"])

    def put(self, service: str, name: str, index: int, ip: str, port: int) -> None:
        """Register an address under a service; the agent's older one for this name and index is replaced."""
        check = {"ttl": f"{TTL_SECONDS}s", "status": "passing", "DeregisterCriticalServiceAfter": _FORGET_AFTER}
        self._ask(
            lambda: self._consul.agent.service.register(
                service,
                service_id=id_of(service, name, index),
                address=ip,
                port=port,
                tags=[f"index:{index}", f"name:{name}", f"ip:{ip}"],
                check=check,
            )
        )

    def remove(self, service_id: str) -> None:
        """Take a registration of this agent back."""
        self._ask(lambda: self._consul.agent.service.deregister(service_id))

    def keep_alive(self, service: str, name: str, index: int) -> bool:
        """Give a sign of life; return False if the agent does not know the registration any more."""

        def give() -> bool:
            try:
                return bool(self._consul.agent.check.ttl_pass(f"service:{id_of(service, name, index)}"))
            except (consul.ClientError, consul.NotFound, consul.ConsulException):
                return False

        return retry_with_socket_error(give)

    def entries(self, service: str) -> list[ConsulEntry]:
        """Return the living registrations of a service; those of others that use its name are left out."""
        _, found = self._ask(lambda: self._consul.health.service(service, passing=True))
        return [entry for entry in map(_entry, found) if entry is not None]

    def _ask(self, call: Callable[[], Result]) -> Result:
        def attempt() -> Result:
            try:
                return call()
            except consul.ConsulException as error:
                raise ConnectionError(f"the Consul agent at {self._host}:{self.port} refused: {error}") from error

        try:
            return retry_with_socket_error(attempt)
        except ConnectionError:
            raise
        except OSError as error:
            where = f"{self._host}:{self.port}"
            raise ConnectionError(
                f"the Consul agent at {where} does not answer; start one, or correct its address: {error}"
            ) from error


def id_of(service: str, name: str, index: int) -> str:
    """Return what the service of a name and index is called at its agent."""
    return f"{service}-{name}-{index}"


def _entry(found: dict[str, Any]) -> ConsulEntry | None:
    service, node = found["Service"], found["Node"]
    tags = dict(tag.split(":", 1) for tag in service.get("Tags") or () if ":" in tag)
    if not tags.keys() >= {"index", "name", "ip"} or not tags["index"].isdigit():
        return None
    return ConsulEntry(
        name=tags["name"],
        index=int(tags["index"]),
        address=concat_ip_and_port(tags["ip"], service["Port"]),
        service_id=service["ID"],
        node=node["Node"],
        agent_host=node["Address"],
        order=int(service.get("ModifyIndex", 0)),
    )
