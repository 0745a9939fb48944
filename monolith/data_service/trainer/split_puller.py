"""SplitPuller: batches of several splits at once, pulled ahead by threads."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from monolith.closing import Closing
from monolith.data.batch import Batch
from monolith.data_service.batch_message import PlacedBatch, unpack_batches
from monolith.data_service.handoff import Handoff
from monolith.data_service.holding import SplitPosition
from monolith.data_service.patient_client import StoppedError
from monolith.data_service.requests import ServiceRequest, ask
from monolith.data_service.trainer.membership import Membership
from monolith.data_service.trainer.share import SplitLease
from monolith.errors import CorruptFrameError, RemoteError
from monolith.wire import Client, Deadline, SharedSecret, TlsConfig

SPLITS_IN_FLIGHT = 3
PULL_WAIT_SECONDS = 1.0
_PAUSE_SECONDS = 0.2
_CHECK_SECONDS = 1.0

LOST = (ConnectionError, TimeoutError, CorruptFrameError)
"""What makes a trainer turn to another worker."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PullConfig:
    """How a trainer pulls."""

    splits_in_flight: int = SPLITS_IN_FLIGHT
    """Splits that are read at the same time."""

    prefetch_batches: int = 16
    """Batches that wait in the trainer, of all splits together."""

    pull_timeout_seconds: float = 15.0
    """A worker that says nothing for so long is taken for dead; another one goes on."""

    patience_seconds: float = 60.0
    """How long to try when no worker, or no dispatcher, can be reached."""

    tls: TlsConfig | None = None

    secret: SharedSecret | None = None
    """What all processes of the service know, if it belongs to a job."""

    def __post_init__(self) -> None:
        """Reject what would never yield a batch."""
        if self.splits_in_flight <= 0 or self.prefetch_batches <= 0:
            raise ValueError(
                "splits_in_flight and prefetch_batches must be positive, got "
                f"{self.splits_in_flight} and {self.prefetch_batches}"
            )
        if not self.pull_timeout_seconds > PULL_WAIT_SECONDS or not self.patience_seconds > 0:
            raise ValueError(
                f"pull_timeout_seconds must be above {PULL_WAIT_SECONDS} and patience_seconds positive, got "
                f"{self.pull_timeout_seconds} and {self.patience_seconds}"
            )


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch of a split and the position behind it; no batch at the split's end."""

    lease: SplitLease
    position: SplitPosition
    batch: Batch | None


class _Finished:
    """A thread has nothing more to pull."""


class SplitPuller(Closing):
    """Batches of a trainer's splits as they come: in order within a split, in any order between splits."""

    def __init__(self, membership: Membership, config: PullConfig) -> None:
        """Start to pull."""
        self._membership = membership
        self._config = config
        self._stop = threading.Event()
        self._arrivals = Handoff[Arrival | BaseException | _Finished](config.prefetch_batches)
        membership.share.renew()
        for number in range(config.splits_in_flight):
            name = f"pull {membership.trainer} {number}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def __iter__(self) -> Iterator[Arrival]:
        """Yield what arrives until the round is over for this trainer; raise what a thread could not get over."""
        left = self._config.splits_in_flight
        while left:
            item = self._arrivals.get(_CHECK_SECONDS)
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, Arrival):
                yield item
            elif isinstance(item, _Finished):
                left -= 1
            else:
                self._membership.keep_lease()

    def close(self) -> None:
        """Stop pulling; the threads end with what they are waiting for."""
        self._stop.set()
        self._arrivals.close()

    def _run(self) -> None:
        puller = _Puller(self._membership, self._config, self._stop, self._arrivals)
        try:
            while (lease := self._membership.next_lease(self._stop)) is not None:
                puller.pull(lease)
            self._arrivals.put(_Finished())
        except StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001  it is raised where the batches are wanted
            self._arrivals.put(error)
        finally:
            puller.close()


class _Puller:
    """One thread's work: a split from beginning to end, from whichever worker lives."""

    def __init__(
        self,
        membership: Membership,
        config: PullConfig,
        stop: threading.Event,
        arrivals: Handoff[Arrival | BaseException | _Finished],
    ) -> None:
        self._membership = membership
        self._config = config
        self._stop = stop
        self._arrivals = arrivals
        self._clients: dict[str, Client] = {}
        self._give_up = Deadline.after(config.patience_seconds)

    def pull(self, lease: SplitLease) -> None:
        """Hand over all batches of a split; return early when told to stop, or when the lease is void."""
        self._give_up = Deadline.after(self._config.patience_seconds)
        position, failed, words = lease.position, None, "none has registered"
        while self._wanted(lease):
            address = self._membership.locate(lease, failed)
            failed = None
            if address is None:
                self._pause_or_raise(lease, words)
                continue
            try:
                for placed in self._stream(address, lease, position):
                    if placed is None:
                        self._arrivals.put(Arrival(lease, position, None))
                        return
                    position = SplitPosition(placed.state, position.num_batches + 1)
                    if not self._arrivals.put(Arrival(lease, position, placed.batch)):
                        return
            except LOST as error:
                failed, words = address, str(error)
                self._pause_or_raise(lease, words, pause_seconds=0.0)
            except RemoteError as error:
                raise RemoteError(f"split {lease.split}: the data worker at {error}") from error

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    def _stream(self, address: str, lease: SplitLease, position: SplitPosition) -> Iterator[PlacedBatch | None]:
        """Yield batches from a position on, then None; end without it if there is no point in going on."""
        content = {
            "trainer": self._membership.trainer,
            "round": self._membership.share.round,
            "split": lease.split,
            "num_splits": self._membership.num_splits,
            "state": position.state,
        }
        stream = self._ask(address, ServiceRequest.OPEN, **content)[0]["stream"]
        try:
            while self._wanted(lease):
                meta, batches = self._ask(address, ServiceRequest.PULL, stream=stream, wait_seconds=PULL_WAIT_SECONDS)
                if meta.get("gone"):
                    return
                yield from batches
                if meta["end"]:
                    yield None
        finally:
            if not self._wanted(lease):
                with contextlib.suppress(*LOST, RemoteError):
                    self._ask(address, ServiceRequest.CLOSE, stream=stream)

    def _wanted(self, lease: SplitLease) -> bool:
        return not self._stop.is_set() and self._membership.share.holds(lease)

    def _ask(self, address: str, request: ServiceRequest, **content: Any) -> tuple[dict[str, Any], list[PlacedBatch]]:
        if address not in self._clients:
            self._clients[address] = Client(address, tls=self._config.tls, secret=self._config.secret)
        reply = self._clients[address].request(ask(request, **content), self._config.pull_timeout_seconds)
        batches = unpack_batches(reply.meta.get("batches", ()), reply.arrays)
        self._give_up = Deadline.after(self._config.patience_seconds)
        return dict(reply.meta), batches

    def _pause_or_raise(self, lease: SplitLease, words: str, pause_seconds: float = _PAUSE_SECONDS) -> None:
        if self._give_up.expired:
            dispatcher = self._membership.dispatcher
            raise TimeoutError(
                f"split {lease.split}: no data worker of the dispatcher at {dispatcher} could be reached for "
                f"{self._config.patience_seconds:g} seconds ({words}); start one with: monolith data-service worker "
                f"--dispatcher {dispatcher}"
            )
        self._stop.wait(pause_seconds)
