"""Dispatcher: the process that gives splits to trainers, and tells them which worker reads them."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monolith.closing import Closing
from monolith.data.schema import Schema
from monolith.data_service.dispatch.ledger_file import LedgerFile
from monolith.data_service.dispatch.split_ledger import SplitLedger
from monolith.data_service.dispatch.worker_registry import WorkerRegistry
from monolith.data_service.holding import Holding
from monolith.data_service.requests import ServiceRequest, answer
from monolith.errors import CorruptFileError, FencedError
from monolith.wire import Message, SharedSecret, TlsConfig, listen

MAX_WAIT_SECONDS = 5.0
"""A trainer that waits for work asks again at least so often."""

POSITIONS_SECONDS = 2.0
"""Positions are not written more often; who owns what, and what is done, always is."""

MAX_CONNECTIONS = 4096
"""Each trainer has two, each worker one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatcherConfig:
    """What a dispatcher serves, and where."""

    input: str
    """The source as "module:callable"; workers import it, the dispatcher does not."""

    num_splits: int
    """Parts the source is cut into: `shard(num_splits, i)`. Several per trainer even out differences in speed."""

    state_path: str
    """Folder for the dispatcher's memory; a dispatcher that starts with it again goes on."""

    address: str = "127.0.0.1:7100"

    lease_seconds: float = 60.0
    """A trainer that says nothing for so long may lose its splits to others; longer than a trainer takes to restart."""

    worker_timeout_seconds: float = 10.0
    """A worker that says nothing for so long gets no more splits."""

    tls: TlsConfig | None = None

    secret: SharedSecret | None = None
    """Of the job that the service belongs to: only those who know it are answered, and they may end the service."""

    insecure: bool = False
    """Listen to other machines without TLS."""

    def __post_init__(self) -> None:
        """Reject what could only fail in a worker."""
        module, _, path = self.input.partition(":")
        if not module or not path:
            raise ValueError(f"input must be 'module:callable', such as 'my_job.data:make_source', got {self.input!r}")
        if self.num_splits <= 0:
            raise ValueError(f"num_splits must be positive, got {self.num_splits}")
        if not self.lease_seconds > 0 or not self.worker_timeout_seconds > 0:
            raise ValueError(
                "lease_seconds and worker_timeout_seconds must be positive, got "
                f"{self.lease_seconds} and {self.worker_timeout_seconds}"
            )


class Dispatcher(Closing):
    """Answers trainers and workers until it is closed.

    Who has which split and which are done is on disk before it is answered: a dispatcher may be killed at any moment
    and started again with the same folder. Of positions it may forget the last two seconds, which the trainers tell
    it again; if one of them is lost for good just then, so much more comes twice.
    """

    def __init__(self, config: DispatcherConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read the folder and listen; CorruptFileError or DispatcherInUseError if the folder cannot be used."""
        self.config = config
        self._clock = clock
        self._ledger = SplitLedger(config.num_splits, lease_seconds=config.lease_seconds, clock=clock)
        self._registry = WorkerRegistry(timeout_seconds=config.worker_timeout_seconds, clock=clock)
        self._schema: str | None = None
        self._changed = threading.Condition()
        self._closing = False
        self._ends_at: float | None = None
        self._newest: dict[str, tuple[str, dict[int, int]]] = {}
        self._heard_at = clock()
        self._handed_over = ""
        self._handlers: dict[int, Callable[[Message], dict[str, Any]]] = {
            ServiceRequest.DESCRIBE: self._describe,
            ServiceRequest.REGISTER: self._register,
            ServiceRequest.JOIN: self._join,
            ServiceRequest.TAKE: self._take,
            ServiceRequest.REPORT: self._report,
            ServiceRequest.LOCATE: self._locate,
            ServiceRequest.STATUS: self._status,
            ServiceRequest.END: self._end,
            ServiceRequest.HAND_OVER: self._hand_over,
        }
        self._file = LedgerFile(config.state_path)
        try:
            self._load()
            self._server = listen(
                config.address,
                self._answer,
                tls=config.tls,
                secret=config.secret,
                insecure=config.insecure,
                max_connections=MAX_CONNECTIONS,
            )
        except BaseException:
            self._file.close()
            raise
        self.address = str(self._server.address)

    def wait(self, timeout_seconds: float) -> bool:
        """Return whether the service has ended: its job asked for it, and every worker knows, or says nothing."""
        with self._changed:
            self._changed.wait_for(self._is_over, timeout_seconds)
            return self._is_over()

    def close(self) -> None:
        """Stop answering; the folder can be used again."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        self._server.close()
        self._file.close()

    def _load(self) -> None:
        self._saved: tuple[int, int, str | None] = -1, -1, None
        content = self._file.read()
        if content is None:
            self._save()
            return
        now = {"input": self.config.input, "num_splits": self.config.num_splits}
        try:
            then = {"input": content["input"], "num_splits": content["ledger"]["num_splits"]}
            self._schema = content["schema"]
            if then == now:
                self._ledger.load_json(content["ledger"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptFileError(f"{self._file.path}: not the state of a dispatcher ({error!r})") from error
        if then != now:
            raise ValueError(
                f"{self._file.path} was made for {then}, this dispatcher is for {now}; use the same, or another folder "
                "to begin anew"
            )

    def _save(self) -> None:
        content = {"input": self.config.input, "schema": self._schema, "ledger": self._ledger.to_json()}
        self._file.write(content)
        self._saved = self._ledger.num_changes, self._ledger.num_moves, self._schema
        self._saved_at = time.monotonic()

    def _must_save(self) -> bool:
        *others, num_moves, schema = self._saved
        if others != [self._ledger.num_changes] or schema != self._schema:
            return True
        return num_moves != self._ledger.num_moves and time.monotonic() - self._saved_at > POSITIONS_SECONDS

    def _answer(self, message: Message) -> Message:
        handler = self._handlers.get(message.type)
        if handler is None:
            raise ValueError(f"a dispatcher has no answer to a message of type {message.type}")
        with self._changed:
            self._forgive_silence()
            if self._is_late(message):
                return answer(message, late=True)
            try:
                content = handler(message)
            except FencedError as error:
                content = {"fenced": str(error)}
            if self._closing:
                return answer(message, ending=True)
            if self._must_save():
                self._save()
                self._changed.notify_all()
            return answer(message, **content)

    def _is_late(self, message: Message) -> bool:
        """Whether a trainer has given up this request, and has asked for something newer since."""
        if message.type not in (ServiceRequest.JOIN, ServiceRequest.TAKE, ServiceRequest.REPORT):
            return False
        life, newest = self._newest.setdefault(message.meta["trainer"], (message.meta["life"], {}))
        if life != message.meta["life"]:
            newest = {}
            if message.type == ServiceRequest.JOIN:
                self._newest[message.meta["trainer"]] = message.meta["life"], newest
        # Asking for work and reporting are done side by side; joining comes before both.
        number = max(newest.values(), default=0) if message.type == ServiceRequest.JOIN else newest.get(message.type, 0)
        if message.sequence >= number:
            newest[message.type] = message.sequence
        return message.sequence < number

    def _forgive_silence(self) -> None:
        """Extend leases by a time without any request: then the dispatcher itself was stopped, not its owners."""
        now = self._clock()
        silence = now - self._heard_at
        self._heard_at = now
        if silence > self.config.lease_seconds / 3:
            self._ledger.extend_leases(silence)

    def _describe(self, message: Message) -> dict[str, Any]:
        return {
            "input": self.config.input,
            "num_splits": self.config.num_splits,
            "schema": self._schema,
            "lease_seconds": self.config.lease_seconds,
            "worker_timeout_seconds": self.config.worker_timeout_seconds,
        }

    def _register(self, message: Message) -> dict[str, Any]:
        schema = Schema.from_json(message.meta["schema"]).to_json()
        if self._schema not in (None, schema):
            raise ValueError(
                f"the worker's {self.config.input} yields {schema}, another one's yields {self._schema}; run the same "
                "code everywhere, or start the dispatcher with another state folder"
            )
        self._schema = schema
        address = str(message.meta["address"])
        if message.meta.get("leave", False):
            self._registry.leave(address)
            self._changed.notify_all()
        else:
            self._registry.register(address, int(message.meta["num_streams"]))
        # A worker that reads "over" leaves: only then may the dispatcher end, since this answer may be on its way.
        return {"over": self._ends_at is not None}

    def _end(self, message: Message) -> dict[str, Any]:
        if self.config.secret is None:
            raise ValueError("this data service belongs to no job, so no job ends it; stop its processes instead")
        if self._ends_at is None:
            self._ends_at = self._clock() + self.config.worker_timeout_seconds
        self._changed.notify_all()
        return {}

    def _is_over(self) -> bool:
        return self._ends_at is not None and (not self._registry.awaits() or self._clock() >= self._ends_at)

    def _join(self, message: Message) -> dict[str, Any]:
        meta = message.meta
        self._registry.forget(meta["trainer"])
        round, lost = self._ledger.join(meta["trainer"], meta["life"], Holding.from_json(meta["holding"]))
        return {**self._describe(message), "round": round, "lost": lost}

    def _hand_over(self, message: Message) -> dict[str, Any]:
        meta = message.meta
        if meta["token"] == self._handed_over:  # sent twice: trainers may have taken splits since
            return {}
        tables = [Holding.from_json(one) for one in meta["tables"]]
        self._ledger.hand_over(meta["family"], set(meta["trainers"]), tables)
        for trainer in self._ledger.lives:
            self._registry.forget(trainer)
        self._handed_over = meta["token"]
        return {}

    def _take(self, message: Message) -> dict[str, Any]:
        meta = message.meta
        known = set(meta["known"])
        allowed = range(self.config.num_splits)
        for num_parts, index in meta["parts"]:
            allowed = allowed[index::num_parts]
        give_up = time.monotonic() + min(float(meta["wait_seconds"]), MAX_WAIT_SECONDS)
        while True:
            taken = self._ledger.take(meta["trainer"], meta["life"], meta["round"], known, allowed)
            left = give_up - time.monotonic()
            if taken.what != "wait" or left <= 0 or self._closing:
                break
            self._changed.wait(left)
        position = taken.position
        return {
            "what": taken.what,
            "split": taken.split,
            "state": position.state,
            "num_batches": position.num_batches,
        }

    def _report(self, message: Message) -> dict[str, Any]:
        meta, holding = message.meta, Holding.from_json(message.meta["holding"])
        lost = self._ledger.report(meta["trainer"], meta["life"], holding)
        self._registry.forget(meta["trainer"], holding.round, {*holding.done, *lost})
        if meta["leave"]:
            self._ledger.leave(meta["trainer"], meta["life"])
            self._registry.forget(meta["trainer"])
            self._changed.notify_all()
        return {"lost": lost}

    def _locate(self, message: Message) -> dict[str, Any]:
        meta = message.meta
        return {"worker": self._registry.locate((meta["trainer"], meta["round"], meta["split"]), meta["failed"])}

    def _status(self, message: Message) -> dict[str, Any]:
        now, placed = self._clock(), self._registry.placed()
        rounds = {
            str(round): [
                {
                    "owner": split.owner,
                    "worker": None if split.owner is None else placed.get((split.owner, round, number)),
                    "num_batches": split.position.num_batches,
                    "done": split.done,
                }
                for number, split in enumerate(table)
            ]
            for round, table in self._ledger.rounds.items()
        }
        workers = {
            address: {"silent_seconds": now - worker.heard_at, "num_streams": worker.num_streams}
            for address, worker in self._registry.alive().items()
        }
        trainers = {name: {"lease": not self._ledger.is_expired(name)} for name in self._ledger.lives}
        return {**self._describe(message), "rounds": rounds, "workers": workers, "trainers": trainers}
