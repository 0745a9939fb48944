"""DataWorker: the process that reads splits for trainers."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from monolith.closing import Closing
from monolith.data.source import Source
from monolith.data_service.batch_message import join_batches
from monolith.data_service.input_name import SourceFactory, load_input
from monolith.data_service.patient_client import PatientClient, StoppedError
from monolith.data_service.requests import ServiceRequest, answer, ask
from monolith.data_service.worker.split_stream import SplitStream
from monolith.errors import MonolithError
from monolith.wire import Client, Message, SharedSecret, TlsConfig, listen

MAX_WAIT_SECONDS = 5.0
"""A trainer that waits for a batch asks again at least so often, so that silence means death."""

_LEAVE_SECONDS = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataWorkerConfig:
    """Whom a data worker works for, and how."""

    dispatcher: str

    address: str = "127.0.0.1:0"
    """Where it listens for trainers."""

    advertise: str | None = None
    """Host under which trainers reach it, if that is not the host it listens at."""

    input: str | None = None
    """Serve nothing but this; None serves what the dispatcher names, which must then be trusted."""

    prefetch_batches: int = 8
    """Batches read ahead, per split."""

    reply_bytes: int = 2 << 20
    """Small batches that are ready go together in one reply, up to this size; beyond, a reply outgrows the caches."""

    idle_seconds: float = 120.0
    """A split that no trainer asked for so long is closed; asked again, it is opened at its place."""

    patience_seconds: float = 60.0
    """The worker ends when the dispatcher could not be reached for so long."""

    tls: TlsConfig | None = None

    secret: SharedSecret | None = None
    """Of the job that the service belongs to."""

    insecure: bool = False
    """Listen to other machines without TLS."""

    def __post_init__(self) -> None:
        """Reject what would leave it without work."""
        if self.prefetch_batches <= 0 or self.reply_bytes <= 0:
            raise ValueError(
                f"prefetch_batches and reply_bytes must be positive, got {self.prefetch_batches} and {self.reply_bytes}"
            )
        if not self.idle_seconds > 0 or not self.patience_seconds > 0:
            raise ValueError(
                f"idle_seconds and patience_seconds must be positive, got {self.idle_seconds}, {self.patience_seconds}"
            )


class DataWorker(Closing):
    """Reads splits and sends their batches until it is closed; it keeps nothing that another could not read again."""

    def __init__(self, config: DataWorkerConfig, make_source: SourceFactory | None = None) -> None:
        """Ask the dispatcher what to read, build that once to see that it can be, listen, and register.

        With `make_source` it reads that, and imports nothing.
        """
        self.config = config
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._streams: dict[str, SplitStream] = {}
        self._ids: dict[tuple[str, int, int], str] = {}
        self._error: BaseException | None = None
        self._handlers: dict[int, Callable[[Message], Message]] = {
            ServiceRequest.OPEN: self._open,
            ServiceRequest.PULL: self._pull,
            ServiceRequest.CLOSE: self._close,
        }
        self._dispatcher = PatientClient(
            config.dispatcher,
            "dispatcher",
            patience_seconds=config.patience_seconds,
            tls=config.tls,
            secret=config.secret,
            stop=self._stop,
        )
        service = self._dispatcher.request(ask(ServiceRequest.DESCRIBE)).meta
        self.input: str = service["input"]
        self._num_splits: int = service["num_splits"]
        self._check_input()
        self._make_source = make_source or load_input(self.input)
        self._schema = self._make_source().schema.to_json()
        self._beat_seconds = service["worker_timeout_seconds"] / 5
        self._server = listen(
            config.address, self._answer, tls=config.tls, secret=config.secret, insecure=config.insecure
        )
        at = self._server.address
        self.address = str(at if config.advertise is None else replace(at, host=config.advertise))
        try:
            goes_on = self._register()
        except BaseException:
            self._server.close()
            raise
        work = self._beat if goes_on else self._stop.is_set
        self._thread = threading.Thread(target=work, name=f"data worker {self.address}", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Return when it is closed or the service ended; raise if the dispatcher is gone or refuses it."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Stop answering, and stop reading; the dispatcher learns it if it is there."""
        is_first = not self._stop.is_set()
        self._stop.set()
        self._server.close()
        with self._lock:
            for stream in self._streams.values():
                stream.close()
            self._streams.clear()
            self._ids.clear()
        self._dispatcher.close()
        if is_first:
            self._leave()

    def _leave(self) -> None:
        config = self.config
        with (
            contextlib.suppress(OSError, MonolithError),
            Client(config.dispatcher, tls=config.tls, secret=config.secret) as client,
        ):
            client.request(ask(ServiceRequest.REGISTER, **self._describe(), leave=True), _LEAVE_SECONDS)

    def _check_input(self) -> None:
        if self.config.input not in (None, self.input):
            raise ValueError(
                f"the dispatcher at {self.config.dispatcher} serves {self.input!r}, this worker only "
                f"{self.config.input!r}; give it the address of another dispatcher, or that input"
            )

    def _register(self) -> bool:
        """Return whether the service goes on."""
        return not self._dispatcher.request(ask(ServiceRequest.REGISTER, **self._describe())).meta.get("over", False)

    def _describe(self) -> dict[str, Any]:
        return {"address": self.address, "schema": self._schema, "num_streams": len(self._streams)}

    def _beat(self) -> None:
        """Register again and again, and close what nobody wants any more."""
        try:
            while not self._stop.wait(self._beat_seconds) and self._register():
                self._close_idle()
        except StoppedError:
            pass
        except (OSError, MonolithError) as error:
            self._error = error

    def _close_idle(self) -> None:
        oldest = time.monotonic() - self.config.idle_seconds
        with self._lock:
            for name in [name for name, stream in self._streams.items() if stream.asked_at < oldest]:
                self._streams.pop(name).close()
            self._ids = {key: name for key, name in self._ids.items() if name in self._streams}

    def _answer(self, message: Message) -> Message:
        handler = self._handlers.get(message.type)
        if handler is None:
            raise ValueError(f"a data worker has no answer to a message of type {message.type}")
        return handler(message)

    def _open(self, message: Message) -> Message:
        meta = message.meta
        key = (meta["trainer"], meta["round"], meta["split"])
        if meta["num_splits"] != self._num_splits:
            raise ValueError(f"the input is cut into {self._num_splits} splits, the trainer says {meta['num_splits']}")
        stream = SplitStream(self._opener(meta["split"]), meta["state"], prefetch_batches=self.config.prefetch_batches)
        name = uuid.uuid4().hex
        with self._lock:
            before = self._streams.pop(self._ids.get(key, ""), None)
            self._streams[name], self._ids[key] = stream, name
        if before is not None:
            before.close()
        return answer(message, stream=name)

    def _opener(self, split: int) -> Callable[[], Source]:
        # A source per split: they are read by threads of their own, and sources are for one thread.
        return lambda: self._make_source().shard(self._num_splits, split)

    def _pull(self, message: Message) -> Message:
        with self._lock:
            stream = self._streams.get(message.meta["stream"])
        if stream is None:
            return answer(message, gone=True)
        wait_seconds = min(float(message.meta["wait_seconds"]), MAX_WAIT_SECONDS)
        batches, end = stream.take(self.config.reply_bytes, wait_seconds)
        if end:
            self._drop(message.meta["stream"])
        heads, arrays = join_batches(batches)
        content: dict[str, Any] = {"batches": heads, "end": end}
        return Message(type=message.type, meta=content, arrays=arrays)

    def _close(self, message: Message) -> Message:
        self._drop(message.meta["stream"])
        return answer(message)

    def _drop(self, name: str) -> None:
        with self._lock:
            stream = self._streams.pop(name, None)
        if stream is not None:
            stream.close()
