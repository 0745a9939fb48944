"""Dense parameters of a model whose owners are parameter servers, as a worker uses them."""

import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from monolith.checkpoint.format.dense_parts import joined_dense_parts
from monolith.checkpoint.format.dense_state import dense_tensors
from monolith.closing import Closing
from monolith.errors import NotFiniteError, RemoteError
from monolith.optim.scheduled import ScheduledOptimizer
from monolith.parallel.batch_key import BatchKey
from monolith.parallel.dense.control_clients import ControlClients
from monolith.parallel.dense.layout import DenseLayout, kept_tensors
from monolith.parallel.dense.live_part import LivePart, sent_settings
from monolith.parallel.dense.packing import Packing, copy_all, pack_named, unpack_named
from monolith.parallel.dense.requests import PROTOCOL, DenseRequest
from monolith.parallel.server_group import GivenUp, RetryConfig
from monolith.wire import Address, Array, Message, SharedSecret, TlsConfig

_JOIN_PAUSE_SECONDS = 0.1


class RemoteDense(Closing):
    """A worker's copy of dense parameters: values come from the owners, gradients go to them.

    The chief calls `create` once, the other workers `join`. From then on the model's parameters are copies. `fetch`
    brings them up to date; `step` sends the gradients of a batch and brings the new values back.
    """

    def __init__(
        self,
        addresses: Sequence[str | Address],
        *,
        plan_hash: int = 0,
        generation: int = 0,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        retry: RetryConfig | None = None,
        given_up: GivenUp | None = None,
    ) -> None:
        """Remember where the parameter servers are, in the order of their shards."""
        self.generation = generation
        """Which life of the job this worker belongs to; every message carries it."""
        self.global_step = 0
        """Batches applied by all workers together, as shard 0 last said."""
        self._retry = retry or RetryConfig()
        self._clients = ControlClients(addresses, secret=secret, tls=tls, retry=self._retry, given_up=given_up)
        self._plan_hash = plan_hash
        self._bound: _Bound | None = None
        self._lock = threading.RLock()
        self._arrivals = threading.Lock()
        self._values: dict[int, tuple[Array, int]] = {}  # by shard, with their version
        self._kept: Array | None = None
        self._group_steps: list[int] = []

    def create(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        *,
        global_step: int = 0,
        applied: Mapping[str, int] | None = None,
        shards: Iterable[int] | None = None,
    ) -> None:
        """Send layout, values and the optimizer's state to all parameter servers, or only to `shards` (chief).

        `applied` has the ends of the batches that are in these values; they will be skipped. A ValueError says what
        cannot live on parameter servers; nothing was sent then.
        """
        num_shards = len(self._clients.addresses)
        layout = DenseLayout.of(model, optimizer, num_shards)
        whole, creation = dense_tensors(model, optimizer), secrets.token_hex(16)
        messages = {}
        for shard in range(num_shards) if shards is None else shards:
            described, packed = pack_named(LivePart(layout, shard, whole).tensors())
            meta = {
                "protocol": PROTOCOL,
                "creation": creation,
                "layout": layout.to_json(),
                "shard": shard,
                "global_step": global_step,
                "applied": dict(applied or {}),
                "tensors": described,
            }
            messages[shard] = self._message(DenseRequest.CREATE, meta, {"bytes": packed})
        with self._lock:
            self._clients.ask(messages)
            self._bound = _Bound(model, optimizer, layout, is_chief=True)
            self.global_step = global_step

    def join(self, model: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
        """Use the parameters that the chief creates, and fetch them; waits for the chief, up to the retry deadline.

        Raises:
            PlanMismatchError: the chief's model has another dense part.
            TimeoutError: the chief did not create the parameters in time.
        """
        layout = DenseLayout.of(model, optimizer, len(self._clients.addresses))
        with self._lock:
            for shard in layout.used_shards():
                address = self._clients.addresses[shard]
                found = self._created_layout(shard, address)
                if found.get("protocol") != PROTOCOL:
                    raise RemoteError(f"{address}: speaks version {found.get('protocol')} of dense messages, not 1")
                layout.check_same(DenseLayout.from_json(found["layout"]), address)
                if found.get("shard") != shard:
                    raise RemoteError(
                        f"{address}: this is shard {found.get('shard')}, not {shard}; give addresses in the order of "
                        "the shards"
                    )
            self._bound = _Bound(model, optimizer, layout, is_chief=False)
        self.fetch(kept=True)

    def fetch(self, *, kept: bool = False) -> int:
        """Copy the owners' values into the model, and with `kept` the chief's buffers; returns the global step."""
        bound = self._joined()
        with self._lock:
            messages = {}
            for shard in bound.layout.used_shards():
                meta = {"layout": bound.hash, "version": bound.versions.get(shard), "kept": kept and shard == 0}
                messages[shard] = self._message(DenseRequest.FETCH, meta)
            step = self._note(self._clients.ask(messages))
        self.assign()
        return step

    @contextmanager
    def held(self) -> Iterator[int]:
        """Inside the block the model has the newest values, and no other thread fetches; gives the global step."""
        with self._lock:
            yield self.fetch()

    def step(self, key: BatchKey | None = None, *, fetch: bool = True) -> int:
        """Let the owners step with the gradients that the model has, copy the new values, return the global step.

        With a `key`, a parameter server that has applied the batch before skips it. Settings of the optimizer, such as
        learning rates, go along as they are now. Without `fetch` the model keeps its values.

        Raises:
            NotFiniteError: a gradient is NaN or infinite; nothing was sent.
        """
        step = self.send(self.packed(key, fetch=fetch))
        self.assign()
        return step

    def packed(self, key: BatchKey | None = None, *, fetch: bool = True) -> "PackedGradients":
        """Return what `send` takes: a copy of the gradients that the model has, so it may go on; see `step`."""
        bound = self._joined()
        gradients, groups = bound.checked_gradients(), bound.settings()
        partition, begin, end = self._clients.calls.next() if key is None else key.parts
        batch: dict[str, Array] = {
            "partition": np.frombuffer(partition, np.uint8),
            "range": np.array([begin, end], np.uint64),
        }
        messages = {}
        for shard in bound.layout.used_shards():
            own = [gradients[number] for number in bound.numbers[shard]]
            missing = [number for number in bound.numbers[shard] if gradients[number] is None]
            arrays = {**batch, "gradients": bound.packings[shard].pack(own)}
            if name := bound.packings[shard].first_not_finite(arrays["gradients"]):
                raise NotFiniteError(f"the gradient of {name} is not finite; nothing was sent")
            if shard == 0 and bound.is_chief and bound.layout.kept:
                arrays["kept"] = bound.kept_packing.pack(kept_tensors(bound.model, bound.layout))
            meta = {"layout": bound.hash, "missing": missing, "groups": groups, "fetch": fetch}
            messages[shard] = self._message(DenseRequest.STEP, meta, arrays)
        return PackedGradients(messages)

    def send(self, gradients: "PackedGradients") -> int:
        """Let the owners step, and return the global step; any thread may call. The model waits for `assign`."""
        with self._lock:
            return self._note(self._clients.ask(gradients.messages))

    def assign(self) -> None:
        """Copy the newest values that have come into the model; for the thread that uses the model."""
        bound = self._joined()
        with self._arrivals:
            values, self._values = self._values, {}
            kept, self._kept = self._kept, None
            steps = self._group_steps
        for shard, (array, version) in values.items():
            bound.assign(shard, array)
            bound.versions[shard] = version
        if kept is not None:
            bound.assign_kept(kept)
        if steps:
            bound.set_group_steps(steps)

    def tensors(self) -> dict[str, Tensor]:
        """Return all dense tensors as the owners have them, as `checkpoint.dense_tensors` does in one process."""
        with self._lock:
            bound = self._joined()
            replies = self._clients.ask(
                {
                    shard: self._message(DenseRequest.TENSORS, {"layout": bound.hash})
                    for shard in bound.layout.used_shards()
                }
            )
        parts = [unpack_named(one.meta.get("tensors"), one.arrays.get("bytes")) for one in replies.values()]
        return joined_dense_parts(parts)

    def close(self) -> None:
        """Close all connections."""
        self._clients.close()

    def _message(
        self, kind: DenseRequest, meta: Mapping[str, object], arrays: Mapping[str, Array] | None = None
    ) -> Message:
        return Message(type=kind, generation=self.generation, plan_hash=self._plan_hash, meta=meta, arrays=arrays or {})

    def _joined(self) -> "_Bound":
        if self._bound is None:
            raise ValueError("the parameters are not known yet; call create (the chief) or join (a worker) first")
        return self._bound

    def _created_layout(self, shard: int, address: Address) -> Mapping[str, object]:
        end = time.monotonic() + self._retry.deadline_seconds
        while True:
            found = self._clients.ask_one(shard, self._message(DenseRequest.JOIN, {"protocol": PROTOCOL})).meta
            if found.get("layout") is not None:
                return found
            if time.monotonic() > end:
                raise TimeoutError(
                    f"{address}: the chief has not created the dense parameters within {self._retry.deadline_seconds} "
                    "seconds; is it running?"
                )
            time.sleep(_JOIN_PAUSE_SECONDS)

    def _note(self, replies: Mapping[int, Message]) -> int:
        """Keep what came until `assign` copies it."""
        with self._arrivals:
            for shard, reply in replies.items():
                if "values" in reply.arrays:
                    self._values[shard] = reply.arrays["values"], int(reply.meta["version"])
            self._kept = replies[0].arrays.get("kept", self._kept)
            self._group_steps = [int(step) for step in replies[0].meta["group_steps"]]
            self.global_step = int(replies[0].meta["global_step"])
            return self.global_step


@dataclass(frozen=True, slots=True)
class PackedGradients:
    """The gradients of a batch on their way to the owners of the weights."""

    messages: Mapping[int, Message]
    """By shard."""


class _Bound:
    """A model whose parameters are copies; parameter servers own the originals."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer | None, layout: DenseLayout, *, is_chief: bool
    ) -> None:
        self.model, self.optimizer, self.layout, self.is_chief = model, optimizer, layout, is_chief
        self.hash = layout.hash
        self.parameters: list[Tensor] = [
            one for group in ([] if optimizer is None else optimizer.param_groups) for one in group["params"]
        ]
        self.numbers = {shard: layout.owned_by(shard) for shard in layout.used_shards()}
        self.packings = {
            shard: Packing([layout.parameters[number] for number in numbers]) for shard, numbers in self.numbers.items()
        }
        self.kept_packing = Packing(layout.kept)
        self.versions: dict[int, int] = {}

    def checked_gradients(self) -> list[Tensor | None]:
        """Return the gradients of all parameters; an error names one that cannot be sent."""
        gradients = [parameter.grad for parameter in self.parameters]
        for spec, gradient in zip(self.layout.parameters, gradients, strict=True):
            if gradient is None:
                continue
            if gradient.layout != torch.strided or gradient.dtype != spec.dtype or gradient.shape != spec.shape:
                raise ValueError(
                    f"the gradient of {spec.name} is {gradient.layout}, {gradient.dtype}, of shape "
                    f"{tuple(gradient.shape)}; a parameter server takes dense gradients like the parameter. Rows of "
                    "ids belong in a table, with its own optimizer"
                )
        return gradients

    def settings(self) -> list[dict[str, object]]:
        """Return the settings of the optimizer's groups for the step that comes."""
        if self.optimizer is None:
            return []
        if isinstance(self.optimizer, ScheduledOptimizer):
            self.optimizer.set_rates()
        return [sent_settings(group) for group in self.optimizer.param_groups]

    def assign(self, shard: int, array: Array) -> None:
        """Copy a shard's values into the model."""
        copies = [self.parameters[number] for number in self.numbers[shard]]
        copy_all(list(zip(copies, self.packings[shard].unpack(array), strict=True)))

    def assign_kept(self, array: Array) -> None:
        """Copy the chief's buffers into the model."""
        copies = kept_tensors(self.model, self.layout)
        copy_all(list(zip(copies, self.kept_packing.unpack(array), strict=True)))

    def set_group_steps(self, steps: Sequence[int]) -> None:
        """Let the optimizer here know the steps that its groups have taken: its rates may follow them."""
        if isinstance(self.optimizer, ScheduledOptimizer):
            for group, step in zip(self.optimizer.param_groups, steps, strict=True):
                group["step"] = step
