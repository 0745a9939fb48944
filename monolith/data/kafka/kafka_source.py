"""KafkaSource: the records of topics as batches, cut at the same offsets in every run."""

import copy
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from monolith.data.batch import Batch
from monolith.data.kafka.partition_queue import COLUMN_TYPES, PartitionQueue
from monolith.data.kafka.patience import FOREVER, Patience
from monolith.data.kafka.settings import BrokerError, KafkaSettings, names_in
from monolith.data.schema import Schema
from monolith.data.source import State, check_shard

if TYPE_CHECKING:
    from monolith.data.kafka.client import KafkaReader

_log = logging.getLogger(__name__)
_WARN_EVERY_SECONDS = 60.0
_MAX_QUEUED_BYTES = 64 << 20
"""Of all partitions together, where one is waited for; pausing costs a fetch, so it should be rare."""


class KafkaSource:
    """Batches of the records of Kafka topics, as a `Source`.

    The partition of a batch is "topic:number"; its offsets are Kafka's. Batches end at multiples of `batch_size` in
    the offsets of their partition, wherever reading began, and never mix partitions: each partition gives the same
    batches in every run. Offsets without a record (compaction, transactions) make a batch shorter; one without any
    is not yielded. Partitions are assigned here, never by the broker: there is no group to rebalance, and nothing is
    committed to one. For use by one thread.

    Following, batches come in the order in which they are complete, which may differ between runs. There is no limit
    to the wait for a batch to fill: a batch cut early would be another batch in the next run. Not following, the end
    is where the topics end when iteration begins, and partitions take turns in an order that the position decides.

    Args:
        topics: One or more names, a sequence or with commas.
        servers: Brokers as "host:port", a sequence or with commas.
        group_id: Names the consumer to the brokers, for access rights and quotas.
        batch_size: Offsets per batch.
        follow: Wait for more records at the end; a partial last batch is never yielded.
        stream_timeout_ms: Following ends after so much silence; -1 never does.
        message_poll_timeout_ms: Silence is counted in polls of this length.
        poll_batch_size: Records to take from the client at once.
        configuration: librdkafka's own settings; see `KafkaSettings`.
        start: "earliest" or "latest" record of each partition, or an offset for each, {"topic:0": 17}. Only for a
            source that is not restored; a partition that is not named begins with its earliest record.
        filter_empty: Leave out records without content.
        columns: Which of "record", "key" (bytes) and "timestamp" (int64, milliseconds) batches have.
        timeout_seconds: How long servers may be silent when an answer is due. Following with `stream_timeout_ms=-1`
            outlasts any silence once it began, and logs a warning once a minute.
        stop: When set, iteration ends after the present batch, and waiting ends at once.
    """

    def __init__(
        self,
        topics: Iterable[str] | str,
        servers: Iterable[str] | str,
        *,
        batch_size: int,
        group_id: str = "",
        follow: bool = True,
        stream_timeout_ms: int = FOREVER,
        message_poll_timeout_ms: int = 10_000,
        poll_batch_size: int | None = None,
        configuration: Mapping[str, str] | Iterable[str] = (),
        start: Literal["earliest", "latest"] | Mapping[str, int] = "earliest",
        filter_empty: bool = False,
        columns: Sequence[str] = tuple(COLUMN_TYPES),
        timeout_seconds: float = 30.0,
        stop: threading.Event | None = None,
    ) -> None:
        self.topics = names_in(topics, "topics")
        where = servers if isinstance(servers, str) else tuple(servers)
        self._settings = KafkaSettings(
            servers=where, group_id=group_id, configuration=configuration, timeout_seconds=timeout_seconds
        )
        self._patience = Patience(stream_timeout_ms=stream_timeout_ms, poll_timeout_ms=message_poll_timeout_ms)
        if batch_size <= 0:
            raise ValueError(f"batch_size must be positive, got {batch_size}")
        if poll_batch_size is not None and poll_batch_size <= 0:
            raise ValueError(f"poll_batch_size must be positive, got {poll_batch_size}")
        if not columns or not set(columns) <= set(COLUMN_TYPES):
            raise ValueError(f"columns must be some of {', '.join(COLUMN_TYPES)}, got {list(columns)}")
        if start not in ("earliest", "latest") and not isinstance(start, Mapping):
            raise ValueError(f"start must be 'earliest', 'latest' or offsets by partition, got {start!r}")
        self.schema = Schema.of(**{name: COLUMN_TYPES[name] for name in columns})
        self._batch_size, self._poll_batch_size = batch_size, poll_batch_size or 1024
        self._follow, self._filter_empty = follow, filter_empty
        self._stop = stop if stop is not None else threading.Event()
        self._start: Literal["earliest", "latest"] | Mapping[str, int] = start
        self._partitions: list[str] | None = None
        self._positions: dict[str, int] | None = None
        self._reader: KafkaReader | None = None
        self._warned_at = -_WARN_EVERY_SECONDS
        self._forget_fetched()

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches from the present position on.

        Raises:
            OffsetError: A broker no longer has, or never had, the records at the position; nothing was skipped.
            BrokerError: The servers cannot be reached, or refuse.
        """
        self._open()
        while not self._stop.is_set():
            batch = self._next_followed() if self._follow else self._next_in_turn()
            if batch is None:
                return
            if len(batch):
                yield batch

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions that are read; asks the servers the first time."""
        if self._partitions is None:
            self._partitions = self._connected().partitions(self.topics)
        return tuple(self._partitions)

    def state(self) -> dict[str, int]:
        """Return the next offset of each partition; asks the servers for it before the first batch."""
        return dict(self._resolved())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to an offset in each partition; a partition that is new since then is read from its beginning."""
        for name, offset in state.items():
            topic, _, number = name.rpartition(":")
            if topic not in self.topics or not number.isdigit() or not isinstance(offset, int) or offset < 0:
                raise ValueError(
                    f"the state of topics {', '.join(self.topics)} is {{'topic:partition': offset}}, got {dict(state)}"
                )
        if not state:
            raise ValueError("the state of a Kafka source has an offset for each partition, got none")
        if self._partitions is not None:
            self._check_known(state)
        self._positions = dict(state)
        self._forget_fetched()

    def shard(self, num_shards: int, index: int) -> Self:
        """Return every `num_shards`-th partition, beginning with `index`; asks the servers which there are."""
        check_shard(num_shards, index)
        if num_shards > len(self.partitions):
            raise ValueError(
                f"topics {', '.join(self.topics)}: {len(self.partitions)} partitions cannot be divided among "
                f"{num_shards} shards; add partitions, or use at most {len(self.partitions)}"
            )
        part = copy.copy(self)
        part._partitions = list(self.partitions[index::num_shards])
        part._positions, part._reader = None, None
        part._patience = copy.copy(self._patience)
        part._forget_fetched()
        return part

    fixed_parts = "a Kafka topic gives its partitions' records in the order in which they arrive, and a step mixes them"
    """Why another number of workers cannot go on behind a step that has no position for each partition."""

    def redivide(self, positions: Sequence[Mapping[str, Any] | None], num_workers: int) -> list[State | None]:
        """Give each worker the positions of its partitions, whichever worker had them before."""
        parts = [self.shard(num_workers, index).partitions for index in range(num_workers)]
        known = {name: offset for one in positions if one is not None for name, offset in one.items()}
        if not known:
            return [None] * num_workers
        self._check_known(known)
        # Partitions that nobody knows are new: none of their records was read.
        first = {name: self._connected().watermarks(name)[0] for name in self.partitions if name not in known}
        return [{name: {**known, **first}[name] for name in names} for names in parts]

    def close(self) -> None:
        """Let go of the servers; the position stays, and iteration connects again."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None
        self._forget_fetched()

    def __repr__(self) -> str:
        return f"KafkaSource({','.join(self.topics)!r}, {self._settings.where!r}, batch_size={self._batch_size})"

    # Positions -----------------------------------------------------------------------------------------------------

    def _connected(self) -> "KafkaReader":
        if self._reader is None:
            from monolith.data.kafka.client import KafkaReader  # noqa: PLC0415 -- needs the optional package

            self._reader = KafkaReader(self._settings)
        return self._reader

    def _resolved(self) -> dict[str, int]:
        """Return the position of every partition, found out now where it is not known."""
        if self._positions is None or not self._positions.keys() >= set(self.partitions):
            given = self._start if isinstance(self._start, Mapping) else {}
            self._check_known(given)
            known = {**given, **(self._positions or {})}
            # Partitions that a restored position does not know are new: none of their records was read.
            side = 1 if self._start == "latest" and self._positions is None else 0
            marks = {name: known.get(name) for name in self.partitions}
            self._positions = {
                name: self._connected().watermarks(name)[side] if offset is None else offset
                for name, offset in marks.items()
            }
        return self._positions

    def _check_known(self, positions: Mapping[str, Any]) -> None:
        unknown = sorted(set(positions) - set(self.partitions))
        if unknown:
            raise ValueError(
                f"the position names {', '.join(unknown)}, but the partitions read here are "
                f"{', '.join(self.partitions)}; restore the state of the same topics and shard"
            )

    def _forget_fetched(self) -> None:
        self._queues: dict[str, PartitionQueue] = {}
        self._paused: set[str] = set()
        self._ends: dict[str, int] = {}

    def _open(self) -> None:
        """Make sure that the partitions are being read and that the brokers have what is at the position."""
        reader = self._connected()
        positions = self._resolved()
        self._check_known(positions)
        self._patience.arrived()
        if self._queues and self._follow:
            return
        marks = {name: reader.watermarks(name) for name in positions}
        self._ends = {name: high for name, (_, high) in marks.items()}
        if self._queues:
            return
        for name, offset in positions.items():
            if not marks[name][0] <= offset <= marks[name][1]:
                from monolith.data.kafka.client import offset_error  # noqa: PLC0415 -- needs the optional package

                raise offset_error(name, offset, marks[name], self._settings)
        reader.assign(positions)
        self._queues = {name: PartitionQueue(name, offset, self._batch_size) for name, offset in positions.items()}

    # Batches -------------------------------------------------------------------------------------------------------

    def _next_followed(self) -> Batch | None:
        """Return the batch that is complete first; None when stopped or after too much silence."""
        while True:
            complete = next((queue for queue in self._queues.values() if queue.is_complete()), None)
            if complete is not None:
                # Behind the others next time, so that a busy partition leaves them their turn.
                self._queues[complete.name] = self._queues.pop(complete.name)
                return self._cut(complete, None)
            self._fetch()
            if self._stop.is_set():
                return None
            if self._patience.is_over and self._is_at_the_end():
                return None
            self._warn_of_trouble()

    def _is_at_the_end(self) -> bool:
        """Say whether everything was fetched: servers that are gone (an error here) or slow are no end of a stream."""
        for queue in self._queues.values():
            _, end = self._connected().watermarks(queue.name)
            if queue.reached < end:
                self._check_silence(queue, end)
                return False
        return True

    def _next_in_turn(self) -> Batch | None:
        """Return the next batch of the partition whose turn it is; None at the end of all or when stopped."""
        left = [name for name, queue in self._queues.items() if queue.position < self._ends[name]]
        if not left:
            return None
        queue = self._queues[self._in_turn(left)]
        end = self._ends[queue.name]
        while not queue.is_complete(end):
            if queue.name in self._paused:
                self._connected().resume(queue.name)
                self._paused.discard(queue.name)
            self._hold_back(queue.name)
            self._fetch()
            if self._stop.is_set():
                return None
            self._check_silence(queue, end)
        return self._cut(queue, end)

    def _check_silence(self, queue: PartitionQueue, end: int) -> None:
        """Raise where the servers should have sent records of a partition long ago."""
        if self._patience.silent_seconds >= self._settings.timeout_seconds:
            raise BrokerError(
                f"Kafka at {self._settings.where}: nothing of {queue.name} arrived behind offset {queue.reached} "
                f"within {self._settings.timeout_seconds:g} s, though it should have records up to {end - 1} "
                f"({self._connected().trouble or 'the servers are silent'}); check that the brokers run"
            )

    def _in_turn(self, left: list[str]) -> str:
        """Return the partition to read next; the positions alone decide, so that a resumed run goes on in step."""
        names = list(self._queues)
        turn = sum(queue.position // self._batch_size for queue in self._queues.values()) % len(names)
        return next(name for name in names[turn:] + names[:turn] if name in left)

    def _hold_back(self, needed: str) -> None:
        """Stop fetching partitions that have enough in the queue while another one is waited for."""
        share = _MAX_QUEUED_BYTES / len(self._queues)
        for name, queue in self._queues.items():
            enough = queue.num_bytes >= share or queue.reached >= self._ends[name]
            if enough and name != needed and name not in self._paused:
                self._connected().pause(name)
                self._paused.add(name)

    def _cut(self, queue: PartitionQueue, limit: int | None) -> Batch:
        batch = queue.cut(self.schema.names, limit=limit, filter_empty=self._filter_empty)
        self._resolved()[queue.name] = queue.position
        return batch

    def _fetch(self) -> None:
        began = time.monotonic()
        try:
            fetched = self._connected().fetch(self._poll_batch_size, self._patience.slice_seconds)
            for name, messages in fetched.messages.items():
                self._queues[name].add(messages)
            for name, end in fetched.ends.items():
                self._queues[name].reach(end)
        except BaseException:
            # The client may be ahead of the queues now; the next read starts from the position again.
            self._forget_fetched()
            raise
        if fetched.messages:
            self._patience.arrived()
        else:
            self._patience.waited(time.monotonic() - began)

    def _warn_of_trouble(self) -> None:
        trouble = self._connected().trouble
        if trouble and time.monotonic() - self._warned_at >= _WARN_EVERY_SECONDS:
            self._warned_at = time.monotonic()
            _log.warning("Kafka at %s: %s; trying on", self._settings.where, trouble)
