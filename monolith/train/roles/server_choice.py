"""ServerChoice: which parameter servers a job uses, if more are started than it needs."""

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from monolith.checkpoint.shards.frozen_shards import ask_all
from monolith.cluster.discovery import ServiceDiscovery
from monolith.cluster.discovery.waiting import answering
from monolith.parallel import RemoteShard, RetryConfig
from monolith.parallel.dense.control_clients import ControlClients
from monolith.parallel.dense.server_speed import host_of, measure_servers, order_servers
from monolith.train.config import RunnerConfig
from monolith.wire import SharedSecret, TlsConfig

MEASURE_SECONDS = 5.0
"""How long servers are measured before the slowest are left out."""

SPARE_SECONDS = 15.0
"""How long the end of a job waits for servers that have not registered yet; nobody else would ever end them."""

_PS = "ps"
_CHOICE_FOLDER = "ps_cluster_dir"
_UNNAMED = "ps_info"
_POLL_SECONDS = 0.2

_log = logging.getLogger(__name__)


class MeetingPlace(Protocol):
    """Where the servers of a job register, and how to reach them."""

    @property
    def discovery(self) -> ServiceDiscovery:
        """Where processes register."""

    @property
    def secret(self) -> SharedSecret:
        """What the processes of the job know."""

    @property
    def tls(self) -> TlsConfig | None:
        """Certificates of this process."""

    @property
    def wait_seconds(self) -> float:
        """How long processes wait for each other."""

    def servers(self, num_ps: int) -> list[str]:
        """Wait until `num_ps` servers answer; return their addresses in order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerChoice:
    """The servers of a job in the order of their shards; the chief chooses.

    Without spares they are the registered ones. With `num_extra`, the chief measures all when the job begins, and
    leaves out the slowest. Any server that is left out takes the place of one that is lost. The choice is kept in a
    file, so a chief that is started again uses the same servers while they live.
    """

    place: MeetingPlace
    path: Path
    num_ps: int
    num_extra: int = 0
    num_redundant: int = 0
    retry: RetryConfig

    @classmethod
    def of(cls, config: RunnerConfig, place: MeetingPlace, retry: RetryConfig, *, apart: str = "") -> "ServerChoice":
        """Return the choice that settings ask for; one with a name in `apart` is kept in a file of its own."""
        name = config.uuid.replace("/", "_") or _UNNAMED
        return cls(
            place=place,
            path=Path(config.model_dir) / _CHOICE_FOLDER / (f"{name}-{apart}" if apart else name),
            num_ps=config.num_ps,
            num_extra=config.num_extra_ps,
            num_redundant=config.num_redundant_ps,
            retry=retry,
        )

    def servers(self) -> list[str]:
        """Wait for enough servers, and return the addresses of the ones to use."""
        if not self._has_spares:
            return self.place.servers(self.num_ps)
        known = self._read()
        there = set(answering(self.place.discovery.query(_PS)).values())
        chosen = self._refilled(known) if there.intersection(known) else self._first()
        if chosen != known:
            self._write(chosen)
            _log.info("the job uses the parameter servers %s", ", ".join(chosen))
        return chosen

    def chosen(self) -> list[str]:
        """Return what the chief has chosen, once all of it is registered (for other workers)."""
        if not self._has_spares:
            return self.place.servers(self.num_ps)
        end = time.monotonic() + self.place.wait_seconds
        # A file of an earlier job names servers that are gone.
        while not (known := self._read()) or not set(known) <= set(self.place.discovery.query(_PS).values()):
            if time.monotonic() > end:
                raise TimeoutError(
                    f"waited {self.place.wait_seconds:g} seconds for the chief to choose parameter servers in "
                    f"{self.path}; is it running?"
                )
            time.sleep(_POLL_SECONDS)
        return known

    def shut_down_all_but(self, used: Sequence[str], *, waits: bool = True) -> None:
        """Let the servers end that are not among `used`, and those that are only starting unless nobody `waits`."""
        end = time.monotonic() + (min(SPARE_SECONDS, self.place.wait_seconds) if waits else 0)
        num_others = self.num_ps + self.num_extra + self.num_redundant - len(used)
        while len(others := set(self.place.discovery.query(_PS).values()).difference(used)) < num_others:
            if time.monotonic() >= end:
                _log.warning("%d parameter servers did not register until the end", num_others - len(others))
                break
            time.sleep(_POLL_SECONDS)
        ask_all(sorted(others), self._shut_down)  # all at once: each that is gone takes the whole time of a call

    def _shut_down(self, address: str) -> None:
        with RemoteShard(address, secret=self.place.secret, tls=self.place.tls, retry=self.retry) as shard:
            try:
                shard.shut_down()
            except Exception as error:  # noqa: BLE001  it is gone already, or will be killed
                _log.warning("a parameter server could not be asked to end: %s", error)

    @property
    def _has_spares(self) -> bool:
        return self.num_extra + self.num_redundant > 0

    def _first(self) -> list[str]:
        found = self.place.servers(self.num_ps + self.num_extra)
        if not self.num_extra:
            return found
        with ControlClients(found, secret=self.place.secret, tls=self.place.tls, retry=self.retry) as clients:
            speeds = measure_servers(clients, MEASURE_SECONDS)
            order = order_servers([host_of(address) for address in clients.addresses], speeds)
        for address, speed in zip(found, speeds, strict=True):
            _log.info("parameter server %s: %.1f calls per second", address, speed)
        return [found[number] for number in order[: self.num_ps]]

    def _refilled(self, known: Sequence[str]) -> list[str]:
        """Return the known servers, with others in the places of lost ones."""
        end = time.monotonic() + self.place.wait_seconds
        while True:
            there = answering(self.place.discovery.query(_PS))
            spares = [there[index] for index in sorted(there) if there[index] not in known]
            lost = [address for address in known if address not in there.values()]
            if len(lost) <= len(spares):
                instead = dict(zip(lost, spares, strict=False))
                return [instead.get(address, address) for address in known]
            if time.monotonic() > end:
                raise TimeoutError(
                    f"waited {self.place.wait_seconds:g} seconds for parameter servers in the place of "
                    f"{', '.join(lost)}; start them again"
                )
            time.sleep(_POLL_SECONDS)

    def _read(self) -> list[str]:
        try:
            known = self.path.read_text().split(",")
        except FileNotFoundError:
            return []
        return known if len(known) == self.num_ps else []

    def _write(self, chosen: Sequence[str]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f"{self.path.name}-tmp")
        new.write_text(",".join(chosen))
        os.replace(new, self.path)
