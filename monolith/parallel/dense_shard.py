"""The dense parameters of one parameter server, with the optimizer that steps them."""

import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Final

from torch import Tensor

from monolith.errors import PlanMismatchError, shown
from monolith.parallel.dense.applied_batches import AppliedBatches, batch_key_of
from monolith.parallel.dense.layout import DenseLayout
from monolith.parallel.dense.live_part import LivePart
from monolith.parallel.dense.packing import pack_named, unpack_named
from monolith.parallel.dense.requests import PROTOCOL, DenseRequest
from monolith.wire import Message

FIRST_TYPE: Final = 90
LAST_TYPE: Final = 99


class DenseShard:
    """Whole tensors of a model and the state of their optimizer; empty until a chief creates them.

    Gradients come with the key of their batch. A batch that was applied before is skipped. Shard 0 also counts
    `global_step`, one per applied batch, and keeps the model's buffers as the chief sends them. Any thread may call.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.RLock()
        self._part: LivePart | None = None
        self._creation = ""
        self._version = 0
        self._global_step = 0
        self._applied = AppliedBatches()
        self._answers: dict[int, Callable[[Message], Message]] = {
            DenseRequest.CREATE: self._create,
            DenseRequest.JOIN: self._join,
            DenseRequest.FETCH: self._fetch,
            DenseRequest.STEP: self._step,
            DenseRequest.TENSORS: self._send_tensors,
        }

    @property
    def is_created(self) -> bool:
        """Whether a chief has sent the tensors."""
        return self._part is not None

    @property
    def global_step(self) -> int:
        """Applied batches, as shard 0 counts them."""
        return self._global_step

    def answer(self, message: Message) -> Message:
        """Return the reply to a message of a type from 90 to 94; ValueError if it cannot be carried out."""
        if message.type not in self._answers:
            raise ValueError(f"no dense message has type {message.type}; update the older side")
        with self._lock:
            return self._answers[message.type](message)

    def tensors(self) -> dict[str, Tensor]:
        """Return copies of all tensors, named as in a snapshot of one process; empty before they were created.

        `checkpoint.format.dense_parts.joined_dense_parts` makes one snapshot of the tensors of all shards.
        """
        with self._lock:
            return {} if self._part is None else self._part.tensors()

    def restore(
        self,
        tensors: Mapping[str, Tensor],
        *,
        global_step: int | None = None,
        applied: Mapping[str, int] | None = None,
    ) -> None:
        """Become what was saved, given this shard's own tensors or those of the whole model.

        Also set the step and the ends of applied batches, if they are given. A ValueError names what does not fit;
        nothing has changed then.
        """
        with self._lock:
            part = self._created()
            restored = LivePart(part.layout, part.shard, tensors)
            ends = None if applied is None else AppliedBatches(applied)
            self._replace(restored, self._global_step if global_step is None else global_step, ends)

    def applied_batches(self) -> dict[str, int]:
        """Return the end of the last applied batch per partition of the stream."""
        with self._lock:
            return self._applied.ends()

    def _replace(self, part: LivePart, global_step: int, applied: AppliedBatches | None) -> None:
        self._part, self._global_step = part, global_step
        self._applied = self._applied if applied is None else applied
        # Not counted from 0: a worker must not take the tensors of another life of this server for those it has.
        self._version = secrets.randbits(48)

    def _create(self, message: Message) -> Message:
        meta = message.meta
        if meta.get("protocol") != PROTOCOL:
            got = shown(meta.get("protocol"))
            raise ValueError(f"this parameter server speaks version {PROTOCOL} of the dense messages, not {got}")
        creation, shard, step = meta.get("creation"), meta.get("shard"), meta.get("global_step")
        layout = DenseLayout.from_json(meta.get("layout"))
        applied = meta.get("applied")
        if not isinstance(creation, str) or not creation or not isinstance(applied, dict):
            raise ValueError("a creation has a name of its own, and the ends of applied batches")
        if type(shard) is not int or not 0 <= shard < layout.num_shards or type(step) is not int or step < 0:
            raise ValueError(f"no shard {shown(shard)} of {layout.num_shards} at global step {shown(step)}")
        if creation != self._creation:  # else its reply was lost, and workers may have changed the tensors since
            tensors = unpack_named(meta.get("tensors"), message.arrays.get("bytes"))
            part = LivePart(layout, shard, tensors)
            self._replace(part, step, AppliedBatches(applied))
            self._creation = creation
        return Message(type=message.type)

    def _join(self, message: Message) -> Message:
        if self._part is None:
            return Message(type=message.type, meta={"protocol": PROTOCOL, "layout": None})
        layout = self._part.layout.to_json()
        return Message(type=message.type, meta={"protocol": PROTOCOL, "layout": layout, "shard": self._part.shard})

    def _fetch(self, message: Message) -> Message:
        part = self._checked_part(message)
        reply = self._news(message, part, applied=False)
        if message.meta.get("kept"):
            reply.arrays = {**reply.arrays, "kept": part.kept_packing.pack(part.kept)}
        return reply

    def _step(self, message: Message) -> Message:
        part = self._checked_part(message)
        partition, begin, end = batch_key_of(message)
        if applied := self._applied.is_new(partition, begin, end):
            missing = message.meta.get("missing")
            if not isinstance(missing, list):
                raise ValueError(f"a step lists the parameters without a gradient, got {shown(missing)}")
            kept = part.kept_packing.unpack(message.arrays["kept"]) if "kept" in message.arrays else part.kept
            part.step(message.arrays.get("gradients"), missing, message.meta.get("groups"))
            part.kept = [tensor.clone() for tensor in kept]
            self._applied.add(partition, end)
            self._version += 1
            self._global_step += part.shard == 0
        return self._news(message, part, applied=applied)

    def _news(self, message: Message, part: LivePart, *, applied: bool) -> Message:
        """Return where the shard stands, with its values unless the worker has them or wants none."""
        meta = {
            "applied": applied,
            "global_step": self._global_step,
            "version": self._version,
            "group_steps": part.group_steps(),
        }
        wants = message.meta.get("fetch", True) and message.meta.get("version") != self._version
        return Message(
            type=message.type, meta=meta, arrays={"values": part.packing.pack(part.parameters)} if wants else {}
        )

    def _send_tensors(self, message: Message) -> Message:
        described, packed = pack_named(self._checked_part(message).tensors())
        return Message(type=message.type, meta={"tensors": described}, arrays={"bytes": packed})

    def _created(self) -> LivePart:
        if self._part is None:
            raise ValueError("this parameter server has no dense parameters yet; the chief creates them first")
        return self._part

    def _checked_part(self, message: Message) -> LivePart:
        part = self._created()
        if message.meta.get("layout") != part.layout_hash:
            raise PlanMismatchError(
                f"the dense part of the model differs: layout {shown(message.meta.get('layout'))}, here it is "
                f"{part.layout_hash}; start all processes with the same model and number of parameter servers"
            )
        return part
