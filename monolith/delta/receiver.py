"""Applies what training sends to the tables that serve."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from monolith.delta.content_checks import check_content
from monolith.delta.delta_part import WHOLE_MODEL, DeltaPart
from monolith.delta.forgetting import forget_in_tables
from monolith.delta.messages import (
    FORGET_TYPE,
    DeltaAnswer,
    DeltaContent,
    DeltaPosition,
    DeltaType,
    Status,
    after_of,
    bases_of,
    taken_of,
    watermark_of,
)
from monolith.delta.taken_part import WHOLE_TARGET, TakenPart
from monolith.embedding.multi_table import MultiTable
from monolith.errors import CorruptFrameError, RemoteError
from monolith.wire import Address, Array, Message, Server, SharedSecret, TlsConfig, listen

_log = logging.getLogger(__name__)


class DeltaTarget(Protocol):
    """A model that is being served; readers go on while it changes."""

    @property
    def tables(self) -> MultiTable:
        """Its tables."""
        ...

    @property
    def dense_weights(self) -> Mapping[str, Array]:
        """The dense weights in force, all of them."""
        ...

    def apply_rows(self, table: str, ids: Tensor, rows: Tensor) -> object:
        """Overwrite or add rows, each of them at once."""
        ...

    def erase_rows(self, table: str, ids: Tensor) -> object:
        """Remove rows; ids without one are passed over."""
        ...

    def swap_dense(self, weights: Mapping[str, Array]) -> object:
        """Replace these dense weights, all at once."""
        ...


@dataclass(frozen=True, slots=True)
class Freshness:
    """How much of training is being served; of several senders, what all of them have brought."""

    position: DeltaPosition
    complete: bool = True
    """False while a full sync is under way, or senders are missing: rows are a mixture of old and new."""

    applied_at_seconds: float | None = None
    """Wall-clock time at which the last delta or full sync was applied; None if there was none yet."""

    watermark: Mapping[str, int] = field(default_factory=dict)
    """The position in the stream of events that the sender reported: everything before it is served."""

    missing: tuple[DeltaPart, ...] = ()
    """Parts of the model that have not come yet in this generation."""


@dataclass(slots=True)
class _PartState:
    """How far one part of the model is."""

    position: DeltaPosition
    applied_at_seconds: float | None = None

    taken: int = 0
    """All changes that an export up to this number holds have come."""

    seen: dict[str, list[Array]] | None = None
    """While a full sync is under way: the ids that came, by table."""


class DeltaReceiver:
    """Follows one training job: applies deltas in order, refuses what does not fit, asks for everything when it must.

    | what comes | answer |
    |---|---|
    | another plan hash | refused |
    | an older generation | refused |
    | a delta that builds on where we are, or before | applied |
    | a delta that we have already | acknowledged, not applied |
    | a delta that builds on what we lack, or of a newer generation | "send everything" |
    | a full sync of this or a newer generation | applied row by row; then rows it did not have are removed |

    A job may have several senders, each with a part of the model and positions of its own.
    """

    def __init__(
        self,
        target: DeltaTarget,
        *,
        plan_hash: int,
        generation: int,
        sequence: int = 0,
        parts: Mapping[DeltaPart, int] | None = None,
        takes: TakenPart = WHOLE_TARGET,
    ) -> None:
        """Follow on from the export that the target was loaded from; `parts` has the sequences of several senders.

        Of every message, only what the target `takes` is applied.
        """
        self._lock = threading.RLock()
        self.adopt(target, plan_hash=plan_hash, generation=generation, sequence=sequence, parts=parts, takes=takes)

    def adopt(
        self,
        target: DeltaTarget,
        *,
        plan_hash: int,
        generation: int,
        sequence: int = 0,
        parts: Mapping[DeltaPart, int] | None = None,
        takes: TakenPart = WHOLE_TARGET,
    ) -> None:
        """Go on with another target, loaded from an export of this position."""
        with self._lock:
            self._target, self._takes = target, takes
            self._plan_hash = plan_hash
            self._generation = generation
            sequences = parts or {WHOLE_MODEL: sequence}
            self._parts = {part: _PartState(DeltaPosition(generation, number)) for part, number in sequences.items()}
            self._watermark: Mapping[str, int] = {}
            self._note_freshness()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let messages wait while the block runs: what it learns stays true until it has acted on it."""
        with self._lock:
            yield

    def has(self, generation: int, parts: Mapping[DeltaPart, int]) -> bool:
        """Return whether deltas have brought all that an export with these sequences of its senders holds.

        Each sender counts for itself: the number of one says nothing about the number of another.
        """
        with self._lock:
            return self._parts.keys() == parts.keys() and all(
                # Without any delta, positions say nothing: exports that no live trainer wrote have the same one.
                state.applied_at_seconds is not None
                and state.seen is None
                and state.position.generation == generation
                and state.taken >= parts[part]
                for part, state in self._parts.items()
            )

    @property
    def freshness(self) -> Freshness:
        """How much of training is being served."""
        return self._freshness

    def listen(
        self,
        address: str | Address,
        *,
        tls: TlsConfig | None = None,
        secret: SharedSecret | None = None,
        insecure: bool = False,
    ) -> Server:
        """Return a server that takes delta messages at the address until it is closed; see `monolith.wire.listen`.

        An accepted peer can replace the whole model: without certificates and secret, pass `insecure`.
        """
        if tls is None and secret is None and not insecure:
            raise ValueError(
                f"any process that connects to {address} could replace the model; pass secret="
                "SharedSecret.of_folder(BASE) or tls=TlsConfig(...), or insecure=True if you trust every process that "
                "can connect"
            )
        return listen(address, self.handle, tls=tls, secret=secret, insecure=insecure)

    def handle(self, message: Message) -> Message:
        """Return the answer to one delta message; what cannot be applied raises and leaves the position as it is."""
        if message.type == FORGET_TYPE:
            return self._forget(message)
        with self._lock:
            answer = self._answer(message).to_message(message.type)
        answer.meta = {**answer.meta, **self._takes.to_meta()}
        return answer

    def _forget(self, message: Message) -> Message:
        with self._lock:
            return forget_in_tables([self._target.tables], message)

    def _answer(self, message: Message) -> DeltaAnswer:
        try:
            type_ = DeltaType(message.type)
        except ValueError:
            raise CorruptFrameError(f"a delta receiver takes no messages of type {message.type}") from None
        part = DeltaPart.of(message.meta)
        if message.plan_hash != self._plan_hash:
            return self._say(part, Status.PLAN, f"plan {self._plan_hash:016x} is served here; export the model anew")
        if message.generation < self._generation:
            return self._say(part, Status.FENCED, f"generation {self._generation} has taken over")
        if type_ == DeltaType.DELTA:
            return self._delta(part, message)
        if type_ == DeltaType.FULL_BEGIN:
            return self._begin_full(part, message)
        return self._continue_full(part, message, is_last=type_ == DeltaType.FULL_END)

    def _delta(self, part: DeltaPart, message: Message) -> DeltaAnswer:
        offered = DeltaPosition(message.generation, message.sequence)
        state = self._parts.get(part)
        if state is None:
            return self._say(part, Status.FULL, f"{part} was not sent here before")
        if state.seen is not None:
            return self._say(part, Status.FULL, "a full sync was not finished")
        if offered.generation == state.position.generation and offered <= state.position:
            return self._say(part, Status.OK, "this delta is known already")
        if not any(_builds_on(base, offered, state.position) for base in bases_of(message.meta)):
            words = f"the delta builds on what is not here; the position of {part} is {state.position}"
            return self._say(part, Status.FULL, words)
        content, watermark, taken = self._checked(part, message), watermark_of(message.meta), taken_of(message.meta)
        self._apply(content)
        state.taken = max(state.taken, taken)
        self._arrive(state, offered, watermark)
        return self._say(part, Status.OK)

    def _begin_full(self, part: DeltaPart, message: Message) -> DeltaAnswer:
        offered, state = DeltaPosition(message.generation, message.sequence), self._parts.get(part)
        if state is not None and offered <= state.position:
            return self._say(part, Status.FULL, f"a later message was taken before; the position is {state.position}")
        # A job with another number of servers has other parts; together they replace all that is here.
        family = set(part.family())
        self._parts = {one: known for one, known in self._parts.items() if one in family}
        applied_at = None if state is None else state.applied_at_seconds
        self._parts[part] = _PartState(offered, applied_at, seen={})
        self._generation = offered.generation
        self._note_freshness()
        return self._say(part, Status.OK)

    def _continue_full(self, part: DeltaPart, message: Message, *, is_last: bool) -> DeltaAnswer:
        position, state = DeltaPosition(message.generation, message.sequence), self._parts.get(part)
        if state is None or state.seen is None or position != state.position:
            return self._say(part, Status.FULL, "this full sync was not begun here")
        content, watermark = self._checked(part, message), watermark_of(message.meta)
        self._apply(content)
        for table, (ids, _) in content.rows.items():
            state.seen.setdefault(table, []).append(ids)
        if is_last:
            self._remove_unseen(part, state.seen)
            state.seen = None
            state.taken = position.sequence  # its rows were read after that number was given out
            self._arrive(state, position, watermark)
        return self._say(part, Status.OK)

    def _checked(self, part: DeltaPart, message: Message) -> DeltaContent:
        """Return the content once it is certain that all of it can be applied."""
        content = self._takes.of_content(DeltaContent.of(message))
        check_content(content, part, self._target.tables, self._target.dense_weights)
        # A server that was started anew in between has taken this push's rows of some senders only.
        after = after_of(message.meta)
        if after and len(after) != part.num_shards:
            raise CorruptFrameError(f"a message comes after all of {part.num_shards} shards, not {len(after)}")
        for sender, needed in zip(part.family(), after, strict=False):
            state = self._parts.get(sender)
            if state is None or state.seen is not None or state.position < needed:
                at = "missing" if state is None else f"at {state.position}"
                raise RemoteError(f"{sender} must be at {needed} before this, and is {at}; push again")
        return content

    def _apply(self, content: DeltaContent) -> None:
        for table, ids in content.erased.items():
            self._target.erase_rows(table, torch.from_numpy(ids))
        for table, (ids, rows) in content.rows.items():
            self._target.apply_rows(table, torch.from_numpy(ids), torch.from_numpy(rows))
        if content.dense:
            self._target.swap_dense(content.dense)

    def _remove_unseen(self, part: DeltaPart, seen_ids: Mapping[str, Sequence[Array]]) -> None:
        """Remove rows that the sender does not have: left by an abandoned generation, or erased since."""
        place = part.rows_of
        if place is None or self._takes.rows_of is None:
            return
        for name, table in self._target.tables.tables.items():
            here = [ids.numpy() for ids in table.ids(place)]
            if not here:
                continue
            ids = np.concatenate(here)
            seen = np.concatenate(seen_ids.get(name, [np.empty(0, np.int64)]))
            unseen = ids[~np.isin(ids, seen)]
            if len(unseen):
                self._target.erase_rows(name, torch.from_numpy(unseen))

    def _arrive(self, state: _PartState, position: DeltaPosition, watermark: Mapping[str, int]) -> None:
        state.position, state.applied_at_seconds = position, time.time()
        self._generation = position.generation
        # A delta without a watermark is a part of a bigger change; the last part brings it.
        self._watermark = watermark or self._watermark
        self._note_freshness()

    def _note_freshness(self) -> None:
        """Let the part that is most behind count for all."""
        family = next(iter(self._parts)).family()
        present = {part: state for part, state in self._parts.items() if state.position.generation == self._generation}
        missing = tuple(part for part in family if part not in present)
        times = [state.applied_at_seconds for state in self._parts.values() if state.applied_at_seconds is not None]
        self._freshness = Freshness(
            min(state.position for state in present.values()),
            complete=not missing and all(state.seen is None for state in present.values()),
            applied_at_seconds=min(times) if len(times) == len(family) else None,
            watermark=self._watermark,
            missing=missing,
        )

    def _say(self, part: DeltaPart, status: Status, detail: str = "") -> DeltaAnswer:
        if status != Status.OK:
            _log.info("delta: %s: %s", status, detail)
        state = self._parts.get(part)
        return DeltaAnswer(status, DeltaPosition(0, 0) if state is None else state.position, detail)


def _builds_on(base: DeltaPosition, offered: DeltaPosition, position: DeltaPosition) -> bool:
    if base.generation == offered.generation == position.generation:
        return base.sequence <= position.sequence
    # What an abandoned generation sent after the base is not undone by a delta: only exactly there is good enough.
    return base == position
