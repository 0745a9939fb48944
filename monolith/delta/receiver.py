"""Applies what training sends to the tables that serve."""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from monolith.delta.content_checks import check_content
from monolith.delta.messages import (
    DeltaAnswer,
    DeltaContent,
    DeltaPosition,
    DeltaType,
    Status,
    bases_of,
    watermark_of,
)
from monolith.embedding.multi_table import MultiTable
from monolith.errors import CorruptFrameError
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
    """How much of training is being served."""

    position: DeltaPosition
    complete: bool = True
    """False while a full sync is under way: rows are a mixture of old and new."""

    applied_at_seconds: float | None = None
    """Wall-clock time at which the last delta or full sync was applied; None if there was none yet."""

    watermark: Mapping[str, int] = field(default_factory=dict)
    """The position in the stream of events that the sender reported: everything before it is served."""


@dataclass(slots=True)
class _FullSync:
    """A full sync under way: the ids that came, by table."""

    seen: dict[str, list[Array]] = field(default_factory=dict)


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
    """

    def __init__(self, target: DeltaTarget, *, plan_hash: int, generation: int, sequence: int) -> None:
        """Follow on from the export that the target was loaded from."""
        self._lock = threading.Lock()
        self.adopt(target, plan_hash=plan_hash, generation=generation, sequence=sequence)

    def adopt(self, target: DeltaTarget, *, plan_hash: int, generation: int, sequence: int) -> None:
        """Go on with another target, loaded from an export of this position."""
        with self._lock:
            self._target = target
            self._plan_hash = plan_hash
            self._position = DeltaPosition(generation, sequence)
            self._complete = True
            self._full: _FullSync | None = None
            self._freshness = Freshness(self._position)

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
        with self._lock:
            return self._answer(message).to_message(message.type)

    def _answer(self, message: Message) -> DeltaAnswer:
        try:
            type_ = DeltaType(message.type)
        except ValueError:
            raise CorruptFrameError(f"a delta receiver takes no messages of type {message.type}") from None
        if message.plan_hash != self._plan_hash:
            return self._say(Status.PLAN, f"plan {self._plan_hash:016x} is served here; export the model anew")
        if message.generation < self._position.generation:
            return self._say(Status.FENCED, f"generation {self._position.generation} has taken over")
        if type_ == DeltaType.DELTA:
            return self._delta(message)
        if type_ == DeltaType.FULL_BEGIN:
            return self._begin_full(message)
        return self._continue_full(message, is_last=type_ == DeltaType.FULL_END)

    def _delta(self, message: Message) -> DeltaAnswer:
        offered = DeltaPosition(message.generation, message.sequence)
        if not self._complete:
            return self._say(Status.FULL, "a full sync was not finished")
        if offered.generation == self._position.generation and offered <= self._position:
            return self._say(Status.OK, "this delta is known already")
        if not any(self._builds_on(base, offered) for base in bases_of(message.meta)):
            return self._say(Status.FULL, f"the delta builds on what is not here; the position is {self._position}")
        content, watermark = self._checked(message), watermark_of(message.meta)
        self._apply(content)
        self._arrive(offered, watermark)
        return self._say(Status.OK)

    def _builds_on(self, base: DeltaPosition, offered: DeltaPosition) -> bool:
        if base.generation == offered.generation == self._position.generation:
            return base.sequence <= self._position.sequence
        # What an abandoned generation sent after the base is not undone by a delta: only exactly there is good enough.
        return base == self._position

    def _begin_full(self, message: Message) -> DeltaAnswer:
        offered = DeltaPosition(message.generation, message.sequence)
        if offered <= self._position:
            return self._say(Status.FULL, f"a later message was taken before; the position is {self._position}")
        self._position = offered
        self._complete = False
        self._full = _FullSync()
        self._freshness = Freshness(offered, False, self._freshness.applied_at_seconds, self._freshness.watermark)
        return self._say(Status.OK)

    def _continue_full(self, message: Message, *, is_last: bool) -> DeltaAnswer:
        if self._full is None or DeltaPosition(message.generation, message.sequence) != self._position:
            return self._say(Status.FULL, "this full sync was not begun here")
        content, watermark = self._checked(message), watermark_of(message.meta)
        self._apply(content)
        for table, (ids, _) in content.rows.items():
            self._full.seen.setdefault(table, []).append(ids)
        if is_last:
            self._remove_unseen(self._full)
            self._full = None
            self._complete = True
            self._arrive(self._position, watermark)
        return self._say(Status.OK)

    def _checked(self, message: Message) -> DeltaContent:
        """Return the content once it is certain that all of it can be applied."""
        content = DeltaContent.of(message)
        check_content(content, self._target.tables, self._target.dense_weights)
        return content

    def _apply(self, content: DeltaContent) -> None:
        for table, ids in content.erased.items():
            self._target.erase_rows(table, torch.from_numpy(ids))
        for table, (ids, rows) in content.rows.items():
            self._target.apply_rows(table, torch.from_numpy(ids), torch.from_numpy(rows))
        if content.dense:
            self._target.swap_dense(content.dense)

    def _remove_unseen(self, full: _FullSync) -> None:
        """Remove rows that the sender does not have: left by an abandoned generation, or erased since."""
        for name, table in self._target.tables.tables.items():
            here = [ids.numpy() for ids, _ in table.items()]
            if not here:
                continue
            ids = np.concatenate(here)
            seen = np.concatenate(full.seen.get(name, [np.empty(0, np.int64)]))
            unseen = ids[~np.isin(ids, seen)]
            if len(unseen):
                self._target.erase_rows(name, torch.from_numpy(unseen))

    def _arrive(self, position: DeltaPosition, watermark: Mapping[str, int]) -> None:
        self._position = position
        # A delta without a watermark is a part of a bigger change; the last part brings it.
        self._freshness = Freshness(position, True, time.time(), watermark or self._freshness.watermark)

    def _say(self, status: Status, detail: str = "") -> DeltaAnswer:
        if status != Status.OK:
            _log.info("delta: %s: %s", status, detail)
        return DeltaAnswer(status, self._position, detail)
