"""JobPlace: where the processes of a job find each other, and how they prove that they belong to it."""

import ipaddress
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from monolith.closing import Closing
from monolith.cluster.discovery import FilesServiceDiscovery, ServiceDiscovery, wait_for
from monolith.cluster.discovery.names_apart import NamesApart
from monolith.cluster.discovery.waiting import answers
from monolith.cluster.host_addresses import loopback_ip
from monolith.cluster.platform.local_host import get_local_host
from monolith.parallel.coordination import Coordinator
from monolith.train.config import RunnerConfig
from monolith.train.config.run_settings import tls_config
from monolith.train.job.scale.shape import CLUSTER_FOLDER
from monolith.train.roles.cluster import ListedCluster
from monolith.train.roles.discovery import asked_discovery
from monolith.wire import Address, SharedSecret, TlsConfig

PS = "ps"
WORKER = "worker"
DISPATCHER = "dispatcher"
DSWORKER = "dsworker"
"""Names in discovery. Of the workers only number 0, the chief, is registered: nobody asks the others anything."""

HANDOVER_SECONDS = 30.0
"""How long a process waits for another one of its name to end."""

_POLL_SECONDS = 0.2

_COMMON = ("num_ps", "num_workers", "seed", "enable_fused_layout", "params_override", "half_precision_rows")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class JobPlace(Closing):
    """What a process needs to know to take part in a job."""

    discovery: ServiceDiscovery

    secret: SharedSecret = field(repr=False)

    tls: TlsConfig | None = None

    insecure: bool = False
    """Others may connect without TLS; they still prove that they know the secret."""

    wait_seconds: float = 7200.0
    """How long processes wait for each other."""

    listen: str | None = None
    """Host, or host and port, where this process listens; this machine alone if not given."""

    prefix: str = ""
    """What precedes every name in the discovery, where two jobs share it."""

    notes: FilesServiceDiscovery | None = None
    """Where the chief notes its address too, for those who ask how the job is."""

    def listen_at(self, name: str, index: int) -> str:
        """Return where a process of this name and index listens."""
        listed = self.discovery.address_for(name, index)
        if self.listen is None:
            return listed or str(Address(loopback_ip(), 0))
        own = _address_of(self.listen)
        return str(own if listed is None else replace(own, port=Address.parse(listed).port))

    def seen_by_others(self, address: Address) -> Address:
        """Return the address under which others reach a listener; one of all networks has that of its host."""
        if address.path is None and address.host in ("0.0.0.0", "::"):
            return replace(address, host=get_local_host().strip("[]"))
        return address

    def register(self, name: str, index: int, address: Address) -> None:
        """Let the others know where this process listens.

        Raises:
            ValueError: a living process has this name and index, and did not end in time.
        """
        addr = self.discovery.address_for(name, index) or str(self.seen_by_others(address))
        if not isinstance(self.discovery, FilesServiceDiscovery):  # which knows the processes themselves
            self._wait_for_predecessor(name, index, addr)
        self.discovery.register(name, index, addr)
        if self.notes is not None and (name, index) == (WORKER, 0):
            self.notes.register(name, index, addr)

    def deregister(self, name: str, index: int, address: Address) -> None:
        """Take the address back."""
        addr = self.discovery.address_for(name, index) or str(self.seen_by_others(address))
        self.discovery.deregister(name, index, addr)

    def servers(self, num_ps: int) -> list[str]:
        """Wait until `num_ps` parameter servers answer; return their addresses in order."""
        missing = num_ps - len(self.discovery.query(PS))
        if missing > 0:
            _log.warning(
                "waiting for %d of %d parameter servers, up to %g s; start each with server_type=ps and its index, or "
                "all processes of a job with `monolith launch`%s",
                missing,
                num_ps,
                self.wait_seconds,
                self._other_name(PS),
            )
        try:
            found = wait_for(self.discovery, PS, num_ps, timeout_seconds=self.wait_seconds, must_answer=True)
        except TimeoutError as error:
            raise TimeoutError(f"{error}{self._other_name(PS)}") from None
        return [found[index] for index in sorted(found)]

    def chief(self) -> str:
        """Wait until the chief answers; return its address."""
        return self._first_of(WORKER, "the chief (worker 0)")

    def dispatcher(self) -> str:
        """Wait until the dispatcher of the job's data service answers; return its address."""
        return self._first_of(DISPATCHER, "the dispatcher of its data service (server_type=dispatcher)")

    def _first_of(self, name: str, what: str) -> str:
        end = time.monotonic() + self.wait_seconds
        while (address := self.discovery.query(name).get(0)) is None or not answers(address):
            if time.monotonic() > end:
                words = f"is registered at {address}, where nobody answers" if address else "is not registered"
                raise TimeoutError(
                    f"waited {self.wait_seconds:g} seconds for {what}, which {words}; start it" + self._other_name(name)
                )
            time.sleep(_POLL_SECONDS)
        return address

    def _other_name(self, name: str) -> str:
        """Return what to say of the name that discovery is asked for, if it is another one."""
        return (
            f". Discovery is asked for {self.prefix + name!r}: one with a fixed list must have that name too"
            if self.prefix
            else ""
        )

    def close(self) -> None:
        """Take back what this process registered."""
        self.discovery.close()
        if self.notes is not None:
            self.notes.close()

    def _wait_for_predecessor(self, name: str, index: int, addr: str) -> None:
        """Wait until nobody else listens under this name: a process that was killed stays registered for a while."""
        seconds = min(HANDOVER_SECONDS, self.wait_seconds)
        end = time.monotonic() + seconds
        warned = False
        while (holder := self.discovery.query(name).get(index)) not in (None, addr) and answers(str(holder)):
            if time.monotonic() > end:
                raise ValueError(
                    f"{name} {index} is taken: a process listens at {holder} and did not end within {seconds:g} "
                    "seconds; stop it, choose another index, or give this job another name"
                )
            if not warned:
                _log.warning("%s %d is registered at %s; waiting %g s for its end", name, index, holder, seconds)
                warned = True
            time.sleep(_POLL_SECONDS)


def place_of(config: RunnerConfig, discovery: ServiceDiscovery | None, *, apart: str = "") -> JobPlace:
    """Return where the processes of a job find each other: as settings say, by default in `<model_dir>/cluster`.

    Processes with a name in `apart` meet only each other, while a job trains with the same settings. A list of
    addresses has no room for both.
    """
    if not str(config.model_dir):
        raise ValueError("model dir can't be empty.")
    folder = Path(config.model_dir) / CLUSTER_FOLDER
    found = discovery or asked_discovery(config)
    cluster = ListedCluster.of(found)
    if cluster is not None:
        found = cluster.discovery()
    in_folder = FilesServiceDiscovery(folder / apart)
    prefix = ""
    if found is not None and cluster is None and apart:
        found = NamesApart(found, f"{apart}-")
        prefix = f"{apart}-"
    return JobPlace(
        discovery=in_folder if found is None else found,
        prefix=prefix,
        notes=None if found is None else in_folder,
        secret=SharedSecret.made_in_folder(folder),
        tls=tls_config(config),
        insecure=config.insecure,
        wait_seconds=float(config.session_creation_timeout_secs),
        listen=config.listen,
    )


@contextmanager
def coordinator_at(place: JobPlace, num_workers: int) -> Iterator[Coordinator]:
    """Listen for the workers of a job, and register as its chief."""
    at = place.listen_at(WORKER, 0)
    with Coordinator(num_workers, at, secret=place.secret, tls=place.tls, insecure=place.insecure) as coordinator:
        place.register(WORKER, 0, coordinator.address)
        yield coordinator


def common_settings(config: RunnerConfig) -> dict[str, Any]:
    """Return the settings that chief and workers must have in common."""
    return {name: getattr(config, name) for name in _COMMON}


def _address_of(text: str) -> Address:
    """Read a host, with or without a port."""
    host = text.removeprefix("[").removesuffix("]")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return Address.parse(text) if ":" in text else Address(text, 0)
    return Address(host, 0)
