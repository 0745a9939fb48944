"""One serving target: what it has not received yet, and how it is sent."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from torch import Tensor

from monolith.delta.delta_part import DeltaPart
from monolith.delta.messages import DeltaAnswer, DeltaContent, DeltaPosition, DeltaType, Status, positions_to_meta
from monolith.delta.parts import DeltaPiece, parts_of, pieces_of_changes, pieces_of_tables
from monolith.delta.shared_changes import SharedChanges
from monolith.delta.since_export import SinceExport
from monolith.delta.taken_part import WHOLE_TARGET, TakenPart
from monolith.embedding.table import Changes, Table
from monolith.errors import FencedError, PlanMismatchError, RemoteError
from monolith.wire import Address, Client, Message, SharedSecret, TlsConfig

DenseWeights = Callable[[], tuple[int, Mapping[str, Tensor]]]
"""Returns the dense weights and a version that changes when they do; the tensors must not change afterwards."""

Watermark = Callable[[], Mapping[str, int]]
"""Returns how far in the stream of events training is, e.g. {"event_time": ..., "event_seq": ...}."""


Ends: TypeAlias = dict[str, object]
"""What the last message of a push says besides its content."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeltaSettings:
    """How a sender talks to its targets."""

    connect_timeout_seconds: float = 5.0

    request_timeout_seconds: float = 30.0
    """A target that takes longer to apply one message counts as failed."""

    max_message_bytes: int = 32 << 20
    """Rows and ids of one message; the dense weights come on top, whole."""

    tls: TlsConfig | None = None
    """Certificates, for targets on other machines."""

    secret: SharedSecret | None = None
    """What sender and targets prove to know; a target that listens without certificates asks for it."""

    skip_zero_embedding: bool = False
    """Rows of zeros are sent as tombstones: targets keep none, and a lookup still reads zeros."""

    def __post_init__(self) -> None:
        """Reject values that could only fail later, far from here."""
        if self.max_message_bytes <= 0:
            raise ValueError(f"max_message_bytes must be positive, got {self.max_message_bytes}")


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one push brought to one target."""

    target: Address
    position: DeltaPosition
    """Where the target is now."""

    num_rows: int = 0
    num_erased: int = 0
    dense: bool = False
    """Whether dense weights were among it."""

    full: bool = False
    """Whether the target got everything, not only what changed."""

    def with_content(self, content: DeltaContent, sequence: int) -> "Delivery":
        """Return this with one more message counted."""
        return replace(
            self,
            position=DeltaPosition(self.position.generation, sequence),
            num_rows=self.num_rows + content.num_rows,
            num_erased=self.num_erased + content.num_erased,
            dense=self.dense or bool(content.dense),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DeltaJob:
    """What all targets of a sender have in common."""

    tables: Mapping[str, Table]
    changes: SharedChanges
    since_export: SinceExport
    part: DeltaPart
    plan_hash: int
    generation: int
    sequences: "SequenceCounter"
    dense_weights: DenseWeights
    watermark: Watermark
    settings: DeltaSettings


class SequenceCounter:
    """Numbers for the moments at which changes are taken."""

    def __init__(self, start: int) -> None:
        """Start at a number that was never given out."""
        self._lock = threading.Lock()
        self._value = start

    @property
    def value(self) -> int:
        """The last number given out."""
        with self._lock:
            return self._value

    def next(self) -> int:
        """Give out the next number; call it after the changes it stands for were taken."""
        with self._lock:
            self._value += 1
            return self._value

    def advance_to(self, value: int) -> None:
        """Give out only numbers above this one from now on."""
        with self._lock:
            self._value = max(self._value, value)


class DeltaLink:
    """Keeps one serving target up to date; pushes of several threads take turns."""

    def __init__(self, address: Address, job: DeltaJob, base: DeltaPosition | None) -> None:
        """Follow the tables from now on; `base`, if given, is a position that equals their present content."""
        settings = job.settings
        self.address = address
        self._job = job
        self._client = Client(
            address,
            connect_timeout_seconds=settings.connect_timeout_seconds,
            tls=settings.tls,
            secret=settings.secret,
        )
        self._lock = threading.Lock()
        self._changes = job.changes.follow()
        # A target at this number or beyond loaded an export that began after this: it misses nothing. A number of its
        # own: at the last one given out may be a target of an earlier link, which misses what came in between.
        start = DeltaPosition(job.generation, job.sequences.next())
        self._bases = [start] if base is None else [start, base]
        self._dense_version: int | None = None
        self._needs_full = False
        self._loaded: DeltaPosition | None = None
        """Where a target was that asked for everything: perhaps it has just loaded an export."""
        self._takes = WHOLE_TARGET  # until it says otherwise; it drops what it does not take

    def push(self, *, watermark: Mapping[str, int] | None = None, after: Sequence[DeltaPosition] = ()) -> Delivery:
        """Bring the target up to date; on any error nothing is lost, the next push brings it too.

        The `watermark` is by default that of this moment. If the target's rows of all shards are not at `after`, it
        takes nothing.

        Raises:
            OSError: the target cannot be reached, or does not answer in time.
            RemoteError: the target could not apply what it got.
            FencedError: the target follows a newer generation.
            PlanMismatchError: the target serves another lookup plan.
        """
        with self._lock:
            # Asked first: whatever it counts is in the rows that are read below.
            ends: Ends = {"watermark": dict(self._job.watermark() if watermark is None else watermark)}
            if after:
                ends["after"] = positions_to_meta(after)
            delivery = None if self._needs_full else self._push_delta(ends)
            if delivery is None and self._loaded is not None:
                delivery = self._push_since_export(self._loaded, ends)
            return self._push_full(ends) if delivery is None else delivery

    def close(self) -> None:
        """Stop following the tables and close the connection."""
        with self._lock:
            self._client.close()
            self._changes.close()

    def _push_delta(self, ends: Ends) -> Delivery | None:
        """Send what changed; None if the target needs everything."""
        # Before the changes: an export with a later number may hold some that this push does not bring.
        taken = self._job.sequences.next()
        changes = self._changes.take()
        try:
            if any(change.overflowed for change in changes.values()):
                self._needs_full = True
                return None
            return self._send_changes(changes, {**ends, "taken": taken})
        except BaseException:
            # Also of parts that arrived: sending a row twice does no harm, losing one does.
            self._changes.give_back(changes)
            raise

    def _send_changes(self, changes: Mapping[str, Changes], ends: Ends) -> Delivery | None:
        job = self._job
        delivery = Delivery(self.address, self._bases[0])
        for content, is_last in _with_last(self._parts(pieces_of_changes(changes))):
            version, content = self._with_dense(content, always=False) if is_last else (None, content)
            sequence = job.sequences.next()
            meta = {"bases": positions_to_meta(self._bases), **(ends if is_last else {"watermark": {}})}
            answer = self._ask(DeltaType.DELTA, sequence, content, meta)
            # A target that is ahead of us did not take the delta: it followed an earlier sender of this generation.
            if answer.status == Status.FULL or answer.position.sequence != sequence:
                self._needs_full = True
                self._loaded = answer.position
                return None
            self._bases = [DeltaPosition(job.generation, sequence)]
            self._dense_version = self._dense_version if version is None else version
            delivery = delivery.with_content(content, sequence)
        return delivery

    def _push_since_export(self, position: DeltaPosition, ends: Ends) -> Delivery | None:
        """Send what changed since the export that the target has loaded; None if it needs everything."""
        self._loaded = None
        taken = self._job.sequences.next()
        # Taken first: a row that is trained between the two is in both, and not in neither.
        self._changes.take()
        changes = self._job.since_export.of(position)
        if changes is None:
            return None  # everything comes, and what was taken with it
        self._bases, self._dense_version = [position], None
        delivery = self._send_changes(changes, {**ends, "taken": taken})
        self._needs_full = delivery is None
        return delivery

    def _push_full(self, ends: Ends) -> Delivery:
        self._needs_full = True
        self._changes.take()  # what is read from here on contains it
        job = self._job
        sequence = job.sequences.next()
        delivery = Delivery(self.address, DeltaPosition(job.generation, sequence), full=True)
        self._ask_full(DeltaType.FULL_BEGIN, sequence, DeltaContent(), {})
        for content in self._parts(pieces_of_tables(job.tables)):
            self._ask_full(DeltaType.FULL_ROWS, sequence, content, {})
            delivery = delivery.with_content(content, sequence)
        version, last = self._with_dense(DeltaContent(), always=True)
        self._ask_full(DeltaType.FULL_END, sequence, last, ends)
        self._bases = [DeltaPosition(job.generation, sequence)]
        self._dense_version = version
        self._needs_full = False
        return delivery.with_content(last, sequence)

    def _parts(self, pieces: Iterator[DeltaPiece]) -> Iterator[DeltaContent]:
        job, settings = self._job, self._job.settings
        own = (replace(piece, ids=self._takes.own(piece.ids)) for piece in pieces)
        return parts_of(own, job.tables, settings.max_message_bytes, skip_zero_embedding=settings.skip_zero_embedding)

    def _with_dense(self, content: DeltaContent, *, always: bool) -> tuple[int, DeltaContent]:
        if not self._takes.dense:
            return 0, content
        version, weights = self._job.dense_weights()
        if version == self._dense_version and not always:
            return version, content
        arrays = {name: np.asarray(weight.detach().cpu().numpy()) for name, weight in weights.items()}
        return version, replace(content, dense=arrays)

    def _ask_full(self, type_: DeltaType, sequence: int, content: DeltaContent, meta: Mapping[str, object]) -> None:
        if self._ask(type_, sequence, content, meta).status == Status.FULL:
            raise RemoteError(f"{self.address} lost the beginning of a full sync; the next push starts it again")

    def _ask(self, type_: DeltaType, sequence: int, content: DeltaContent, meta: Mapping[str, object]) -> DeltaAnswer:
        job = self._job
        message = Message(
            type=type_,
            generation=job.generation,
            sequence=sequence,
            plan_hash=job.plan_hash,
            meta={**meta, **job.part.to_meta()},
            arrays=content.arrays(),
        )
        reply = self._client.request(message, job.settings.request_timeout_seconds)
        answer, self._takes = DeltaAnswer.of(reply), TakenPart.of(reply.meta)
        if answer.position.generation == job.generation:
            job.sequences.advance_to(answer.position.sequence)
        if answer.status == Status.FENCED:
            raise FencedError(f"{self.address} refused generation {job.generation}: {answer.detail}")
        if answer.status == Status.PLAN:
            raise PlanMismatchError(f"{self.address} refused plan {job.plan_hash:016x}: {answer.detail}")
        return answer


def _with_last(parts: Iterator[DeltaContent]) -> Iterator[tuple[DeltaContent, bool]]:
    """Yield each part and whether it is the last; without any part, yield one empty part."""
    content = next(parts, DeltaContent())
    for following in parts:
        yield content, False
        content = following
    yield content, True
