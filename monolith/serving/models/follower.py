"""Deltas for a served model: a trainer's changes go into the version that answers."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from monolith.delta.messages import FORGET_TYPE
from monolith.delta.receiver import DeltaReceiver
from monolith.errors import RemoteError
from monolith.export.description import Description
from monolith.export.serving_model import ServingModel
from monolith.serving.metrics import Progress
from monolith.wire import Message, SharedSecret, TlsConfig, listen


class Follower:
    """Takes deltas at an address, until it is closed, and applies them to the version that it was given last."""

    def __init__(
        self,
        model: ServingModel,
        address: str | None,
        *,
        tls: TlsConfig | None = None,
        secret: SharedSecret | None = None,
    ) -> None:
        """Listen, an OSError if the address is in use; without an address, `handle` is called with what comes."""
        self._model = model
        self._receiver = DeltaReceiver(
            model, plan_hash=model.plan_hash, generation=model.generation, parts=model.parts, takes=model.takes
        )
        self._refusal: str | None = None
        self.forget: Callable[[Message], Message] = self._receiver.handle
        """Answers a message about ids that must go from every version in memory."""
        self._server = None if address is None else listen(address, self.handle, tls=tls, secret=secret)

    @property
    def address(self) -> str:
        """Where it listens; empty if it does not."""
        return "" if self._server is None else str(self._server.address)

    @property
    def progress(self) -> Progress:
        """How much of training is being served: what the export had, and the deltas since."""
        now = self._receiver.freshness
        as_of = self._model.created if now.applied_at_seconds is None else now.applied_at_seconds
        return Progress(now.position.generation, now.position.sequence, as_of, len(now.missing))

    def held(self) -> AbstractContextManager[None]:
        """Let deltas wait while the block runs."""
        return self._receiver.held()

    def adopt(self, model: ServingModel) -> None:
        """Apply deltas to this version from now on; a trainer that is ahead of it is asked for everything."""
        self._model = model
        self._receiver.adopt(
            model, plan_hash=model.plan_hash, generation=model.generation, parts=model.parts, takes=model.takes
        )

    def refuse(self, reason: str | None) -> None:
        """Refuse deltas for this reason, or take them again if there is none; the trainer keeps what was refused."""
        self._refusal = reason

    def is_past(self, description: Description) -> bool:
        """Whether a version comes from an earlier life of the trainer than what is served."""
        return description.generation < self._receiver.freshness.position.generation

    def is_amid_full_sync(self, description: Description) -> bool:
        """Whether the trainer that wrote a version is sending everything just now."""
        now = self._receiver.freshness
        return not now.complete and now.position.generation == description.generation

    def has(self, description: Description) -> bool:
        """Whether deltas have brought all that a version holds: loading it could only go back."""
        has_content = self._receiver.has(description.generation, description.parts)
        return has_content and self._model.description.is_like(description)

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self.close()

    def handle(self, message: Message) -> Message:
        """Return the answer to one delta message."""
        if message.type == FORGET_TYPE:
            return self.forget(message)
        if self._refusal is not None:
            raise RemoteError(self._refusal)
        return self._receiver.handle(message)
