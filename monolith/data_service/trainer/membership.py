"""Membership: a trainer's place in a data service, kept by heartbeats."""

import contextlib
import itertools
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from monolith.data_service.holding import Holding, SplitPosition
from monolith.data_service.patient_client import PatientClient, StoppedError
from monolith.data_service.requests import ServiceRequest
from monolith.data_service.trainer.share import Share, SplitLease
from monolith.errors import FencedError, MonolithError
from monolith.wire import Client, Message, SharedSecret, TlsConfig

TAKE_WAIT_SECONDS = 1.0
MAX_BEAT_SECONDS = 2.0
_LEAVE_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Membership:
    """One life of a trainer: it joins, takes splits, reports how far it is, and may leave."""

    def __init__(
        self,
        dispatcher: str,
        trainer: str,
        holding: Holding,
        *,
        parts: Sequence[tuple[int, int]],
        wait_for_others: bool,
        patience_seconds: float,
        tls: TlsConfig | None,
        secret: SharedSecret | None = None,
    ) -> None:
        """Join with what a checkpoint holds; TimeoutError if the dispatcher cannot be reached."""
        self.trainer = trainer
        self.dispatcher = dispatcher
        self.stop = threading.Event()
        self._life = uuid.uuid4().hex
        self._parts = [list(part) for part in parts]
        self._wait_for_others = wait_for_others
        self._tls, self._secret = tls, secret
        self._wake = threading.Event()
        self._take_lock, self._report_lock = threading.Lock(), threading.Lock()
        self._sequence = itertools.count(1)
        self._error: BaseException | None = None
        # Two connections: asking for work may take a while, and a heartbeat must not wait for that.
        self._client, self._take_client = (
            PatientClient(
                dispatcher, "dispatcher", patience_seconds=patience_seconds, tls=tls, secret=secret, stop=self.stop
            )
            for _ in range(2)
        )
        asked_at = time.monotonic()
        joined = self._ask(self._client, ServiceRequest.JOIN, holding=holding.to_json())
        self.num_splits: int = joined["num_splits"]
        self.lease_seconds: float = joined["lease_seconds"]
        self._valid_until = asked_at + self.lease_seconds
        if holding.is_empty:
            holding = Holding(joined["round"])
        self.share = Share(holding)
        self._drop_lost(joined["lost"])
        self._thread = threading.Thread(target=self._beat, name=f"lease of {trainer}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether one has to join again: it was ended, or the dispatcher was not to be reached for too long."""
        return self.stop.is_set() or isinstance(self._error, OSError)

    def next_lease(self, stop: threading.Event) -> SplitLease | None:
        """Return a split to read; None when there is nothing left to do in this round, or when told to stop."""
        while not stop.is_set():
            with self._take_lock:
                lease = self.share.next_pending(stop)
                if lease is not None:
                    return lease
                if stop.is_set():
                    return None
                share = self.share
                taken = self._ask(
                    self._take_client,
                    ServiceRequest.TAKE,
                    round=share.round,
                    known=share.known(),
                    parts=self._parts,
                    wait_seconds=TAKE_WAIT_SECONDS,
                )
                if taken["what"] == "split":
                    # Pending, and not returned: should we have been told to stop, the next reader finds it there.
                    share.add(taken["split"], SplitPosition(taken["state"], taken["num_batches"]))
                elif taken["what"] == "complete" or not self._wait_for_others:
                    return None
        return None

    def locate(self, lease: SplitLease, failed: str | None) -> str | None:
        """Return the address of the worker that reads a split; None if there is no worker."""
        place = {"round": self.share.round, "split": lease.split, "failed": failed}
        address: str | None = self._ask(self._client, ServiceRequest.LOCATE, **place)["worker"]
        return address

    def keep_lease(self) -> None:
        """Return if the splits are still ours for sure, asking if need be; raise what went wrong in the background."""
        if self._error is not None:
            raise self._error
        if self.stop.is_set():
            raise RuntimeError(f"the source of trainer {self.trainer!r} was restored or closed; iterate over it anew")
        if time.monotonic() >= self._valid_until:
            self.report()

    def report(self) -> None:
        """Tell the dispatcher how far we are, and learn which splits went to others."""
        with self._report_lock:  # an older report must not come after a newer one
            share = self.share
            holding, asked_at = share.to_report(), time.monotonic()
            lost = self._ask(self._client, ServiceRequest.REPORT, holding=holding.to_json(), leave=False)["lost"]
            self._valid_until = asked_at + self.lease_seconds
            share.told(holding)
            if share is self.share:
                self._drop_lost(lost)

    def report_soon(self) -> None:
        """Let the next heartbeat be now."""
        self._wake.set()

    def next_round(self) -> None:
        """Report that this one is over, and begin the next."""
        self.report()
        self.share = Share(Holding(self.share.round + 1))

    def end(self) -> None:
        """Stop the heartbeats; the lease runs out by and by."""
        self.stop.set()
        self._wake.set()

    def leave(self) -> None:
        """Stop the heartbeats, and let others have at once what is not finished; silent if nobody hears it."""
        if self.stop.is_set():
            return
        self.end()
        self._thread.join(_LEAVE_SECONDS)
        message = self._message(ServiceRequest.REPORT, holding=self.share.to_report().to_json(), leave=True)
        with (
            contextlib.suppress(OSError, MonolithError),
            Client(self.dispatcher, tls=self._tls, secret=self._secret) as client,
        ):
            client.request(message, _LEAVE_SECONDS)

    def _beat(self) -> None:
        try:
            while not self.stop.is_set():
                self._wake.wait(min(self.lease_seconds / 6, MAX_BEAT_SECONDS))
                self._wake.clear()
                if not self.stop.is_set():
                    self.report()
        except StoppedError:
            pass
        except (OSError, MonolithError) as error:
            self._error = error

    def _ask(self, client: PatientClient, request: ServiceRequest, **content: Any) -> dict[str, Any]:
        reply = client.request(self._message(request, **content))
        if "fenced" in reply.meta:
            raise FencedError(f"{self.dispatcher}: {reply.meta['fenced']}")
        return dict(reply.meta)

    def _message(self, request: ServiceRequest, **content: Any) -> Message:
        # Numbered: a request that was given up and sent again may reach the dispatcher after newer ones.
        meta = {"trainer": self.trainer, "life": self._life, **content}
        return Message(type=request, sequence=next(self._sequence), meta=meta)

    def _drop_lost(self, lost: list[int]) -> None:
        if lost:
            _log.warning(
                "trainer %r: its lease ran out and splits %s went to other trainers; batches since its last report may "
                "be trained on twice",
                self.trainer,
                lost,
            )
            self.share.drop(lost)
