"""The chief's endpoint: workers join here, report where they are, and learn what the job does next."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from monolith.closing import Closing
from monolith.errors import shown
from monolith.parallel.coordination.member import Member
from monolith.parallel.coordination.messages import (
    FENCED,
    HEARTBEAT_SECONDS,
    LEFT,
    PROTOCOL,
    CoordinationRequest,
    News,
    Opening,
    Position,
)
from monolith.wire import Address, Message, SharedSecret, TlsConfig, listen

LOST_SECONDS = 5.0
"""A worker that was silent for this long does not hold up a save."""

_NOT_TRAINING = "the job is not training yet, or restores; ask again when `monolith status` shows steps"

_log = logging.getLogger(__name__)


class Coordinator(Closing):
    """Holds the workers 1 to `num_workers - 1` of a job together; the chief itself is worker 0 and uses it directly.

    A job lives in generations: `open` starts one, `suspend` ends it, and workers of an older one join again.
    """

    def __init__(
        self,
        num_workers: int,
        address: str | Address = "127.0.0.1:0",
        *,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        insecure: bool = False,
        lost_seconds: float = LOST_SECONDS,
    ) -> None:
        """Listen; workers wait until a generation is open."""
        self._changed = threading.Condition()
        self.num_workers = num_workers
        self._members = {index: Member(index) for index in range(1, num_workers)}
        self._opening: Opening | None = None
        self._news = News()
        self._tickets = itertools.count(1)
        self._cuts, self._pauses = itertools.count(1), itertools.count(1)
        self._lost_seconds = lost_seconds
        self._status: Callable[[], Mapping[str, Any]] = dict
        self._forget: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
        self._scale: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
        self._is_closed = False
        self._server = listen(
            address, self._answer, tls=tls, secret=secret, insecure=insecure, max_connections=max(256, 4 * num_workers)
        )

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._server.address

    @property
    def stops(self) -> bool:
        """Whether somebody asked the job to end early."""
        return self._news.stop

    @property
    def global_step(self) -> int:
        """The highest step that anybody reported."""
        return self._news.global_step

    def open(self, opening: Opening) -> None:
        """Let workers in: tables and weights are restored, so they can begin."""
        with self._changed:
            self._opening = opening
            for member in self._members.values():
                member.begin(opening.positions.get(member.index))
            self._announce(generation=opening.generation, cut=0, global_step=opening.global_step)

    def suspend(self) -> None:
        """End the present generation: its workers stop and wait for the next one."""
        with self._changed:
            self._opening = None
            self._announce(generation=0, cut=0)

    def request_stop(self) -> None:
        """Let all workers end after their present batch."""
        with self._changed:
            self._announce(stop=True)

    def pause(self) -> None:
        """Let all workers wait before their next step until `resume`, in later generations too."""
        with self._changed:
            self._announce(pause=next(self._pauses))

    def resume(self) -> None:
        """End the pause."""
        with self._changed:
            self._announce(pause=0)

    @property
    def is_paused(self) -> bool:
        """Whether there is a pause."""
        return self._news.pause != 0

    @property
    def standing(self) -> list[int]:
        """Workers that take no step before the pause is over."""
        with self._changed:
            found = self._members.values()
            return [one.index for one in found if one.stands_still(self._lost_seconds, self._news.pause)]

    def note_step(self, global_step: int) -> None:
        """Note how far the chief is."""
        with self._changed:
            self._raise_step(global_step)

    def note_status(self, read: Callable[[], Mapping[str, Any]]) -> None:
        """Take what returns the chief's own part of the job's status."""
        self._status = read

    def on_scale(self, ask: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        """Take what answers those who want another number of processes; it raises a ValueError to refuse."""
        self._scale = ask

    def on_forget(self, forget: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
        """Take what removes ids, by table, and returns what had them."""
        self._forget = forget

    @contextmanager
    def cut(self, *, timeout_seconds: float) -> Iterator[dict[int, Position | None]]:
        """Hold all workers between two batches while the block runs; it gets the positions of workers 1, 2, ...

        A worker that is lost, or not ready in time, is not waited for: its last known position counts. A batch that it
        pushes meanwhile is not applied twice, since parameter servers know batches by their place in the data.
        """
        number = next(self._cuts)
        try:
            with self._changed:
                self._announce(cut=number)
                self._changed.wait_for(lambda: not self._running(number), timeout_seconds)
                if late := self._running(number):
                    _log.warning("workers %s did not pause within %g s; the save goes on", late, timeout_seconds)
                positions = {member.index: member.position for member in self._members.values()}
            yield positions
        finally:
            with self._changed:
                self._announce(cut=0)

    def wait_for_workers(self, *, timeout_seconds: float, check: Callable[[], None] | None = None) -> list[int]:
        """Wait until all workers have finished their parts; return those that have not when the time is over.

        A pause takes nothing of the time. `check` runs several times a second and may raise.
        """
        left, last = timeout_seconds, time.monotonic()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self.unfinished, 0.1)
            now = time.monotonic()
            left -= 0.0 if self.is_paused else now - last
            last = now
            if not self.unfinished or left <= 0:
                return self.unfinished
            if check is not None:
                check()

    def positions(self) -> list[Position | None]:
        """Return the newest known positions of workers 1, 2, ..."""
        with self._changed:
            return [member.position for member in self._members.values()]

    @property
    def unfinished(self) -> list[int]:
        """Workers that have not finished their part."""
        return [member.index for member in self._members.values() if not member.finished]

    @property
    def endings(self) -> dict[int, str]:
        """How the parts ended of the workers that have finished theirs, in words, by index."""
        with self._changed:
            return {member.index: member.finished for member in self._members.values() if member.finished}

    @property
    def unpaused(self) -> list[int]:
        """Workers that do not stand still for the present save, lost ones included: what they push is not known."""
        with self._changed:
            cut = self._news.cut
            return [one.index for one in self._members.values() if not one.finished and one.paused != cut]

    def end(self, *, timeout_seconds: float = 10.0) -> None:
        """Tell all workers that the job is over, and wait until those that live have left."""
        with self._changed:
            self._announce(over=True)
            self._changed.wait_for(
                lambda: all(
                    member.has_left or not (member.is_in or member.waits) or not member.is_alive(self._lost_seconds)
                    for member in self._members.values()
                ),
                timeout_seconds,
            )

    def status(self) -> dict[str, Any]:
        """Return how the job is, for people."""
        own = dict(self._status())
        with self._changed:
            news = self._news
            return {
                "generation": news.generation,
                "global_step": news.global_step,
                "stop": news.stop,
                "over": news.over,
                "servers": [] if self._opening is None else list(self._opening.servers),
                "workers": [own.pop("chief", {"index": 0})]
                + [member.status(self._lost_seconds, news) for member in self._members.values()],
                **own,
            }

    def close(self) -> None:
        """Stop listening; requests that wait are answered first."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._server.close()

    def _announce(self, **changes: Any) -> None:
        self._news = replace(self._news, version=self._news.version + 1, **changes)
        self._changed.notify_all()

    def _raise_step(self, global_step: int) -> None:
        if global_step > self._news.global_step:
            self._news = replace(self._news, global_step=global_step)

    def _running(self, cut: int) -> list[int]:
        """Return the workers that may push a batch."""
        return [
            member.index
            for member in self._members.values()
            if member.is_in and not member.finished and member.paused != cut and member.is_alive(self._lost_seconds)
        ]

    def _answer(self, message: Message) -> Message:
        request = CoordinationRequest(message.type)
        if message.meta.get("protocol") != PROTOCOL:
            raise ValueError(
                f"the chief speaks version {PROTOCOL} of the coordination messages, the worker "
                f"{shown(message.meta.get('protocol'))}; update the older side"
            )
        if request is CoordinationRequest.STATUS:
            return Message(type=request, meta=self.status())
        if request is CoordinationRequest.SCALE:
            return Message(type=request, meta=self._asked_to_scale(message))
        if request is CoordinationRequest.FORGET:
            if self._opening is None or self._forget is None:
                raise ValueError(_NOT_TRAINING)
            return Message(type=request, meta=dict(self._forget(message.meta["ids"])))
        answer = {
            CoordinationRequest.JOIN: self._join,
            CoordinationRequest.REPORT: self._report,
            CoordinationRequest.WATCH: self._watch,
        }[request]
        with self._changed:
            return Message(type=request, meta=answer(self._member(message), message))

    def _asked_to_scale(self, message: Message) -> dict[str, Any]:
        with self._changed:
            if self._news.stop or self._news.over:
                raise ValueError("the job is ending; start it again with other numbers when it has ended")
            if self._opening is None or self._scale is None:
                raise ValueError(_NOT_TRAINING)
            answer = {"generation": self._news.generation, "global_step": self._news.global_step}
        return {**answer, **self._scale(message.meta)}

    def _member(self, message: Message) -> Member:
        index = message.meta.get("index")
        if not isinstance(index, int) or index not in self._members:
            raise ValueError(
                f"there is no worker {shown(index)}: the job has num_workers={len(self._members) + 1}, with the chief "
                "as worker 0; start it with the same num_workers everywhere"
            )
        return self._members[index]

    def _join(self, member: Member, message: Message) -> dict[str, Any]:
        """Let a worker in, or answer that it must ask again: the chief is not ready."""
        member.note_contact()
        member.waits = not message.meta.get("leaves")
        self._changed.notify_all()
        if not member.waits:
            return {"ready": False, "over": self._news.over}
        self._changed.wait_for(
            lambda: self._opening is not None or self._news.over or self._is_closed, HEARTBEAT_SECONDS
        )
        opening = self._opening
        if opening is None:
            return {"ready": False, "over": self._news.over}
        _check_agreement(member.index, message, opening)
        member.join(next(self._tickets))
        self._changed.notify_all()
        return {
            "ready": True,
            "ticket": member.ticket,
            "generation": opening.generation,
            "servers": list(opening.servers),
            "position": member.position,
            "last_step": opening.last_step,
            "global_step": self._news.global_step,
            "pause": self._news.pause,
        }

    def _report(self, member: Member, message: Message) -> dict[str, Any]:
        meta = message.meta
        if refusal := self._refusal(member, message):
            return refusal
        if meta["generation"] == self._news.generation and int(meta["number"]) >= member.number:
            member.position, member.number = meta["position"], int(meta["number"])
            member.finished, member.figures = str(meta["finished"]), meta["figures"]
            member.has_left = member.finished == LEFT
            # A report from before the pause may come after it.
            member.paused = max(member.paused, int(meta["paused"]))
            member.stands = int(meta["stands"])
            self._raise_step(int(meta["global_step"]))
            if meta["paused"] or meta["finished"]:
                self._changed.notify_all()
        return {}

    def _watch(self, member: Member, message: Message) -> dict[str, Any]:
        seen = message.meta["seen"]
        self._changed.wait_for(lambda: self._news.version != seen or self._is_closed, HEARTBEAT_SECONDS)
        if refusal := self._refusal(member, message):
            return refusal
        return asdict(self._news)

    def _refusal(self, member: Member, message: Message) -> dict[str, Any]:
        if message.meta["ticket"] == member.ticket:
            member.note_contact()
            return {}
        return {FENCED: f"another process has joined as worker {member.index}; this one must end"}


def _check_agreement(index: int, message: Message, opening: Opening) -> None:
    """Refuse a worker that would train another model, or in another way."""
    if message.plan_hash != opening.plan_hash:
        raise ValueError(
            f"worker {index} has another lookup plan than the chief (hash {message.plan_hash:#018x}, not "
            f"{opening.plan_hash:#018x}); start all with the same model"
        )
    theirs = message.meta["settings"]
    for name in sorted({*opening.settings, *theirs}):
        ours = opening.settings.get(name)
        if theirs.get(name) != ours:
            raise ValueError(
                f"worker {index} has {name}={shown(theirs.get(name))}, the chief {shown(ours)}; start all with the "
                "same settings"
            )
