"""All models of a server, by name."""

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from monolith.errors import shown
from monolith.export.serving_model import ServingModel
from monolith.serving.models.served_model import NotServedError, ServedModel

_log = logging.getLogger(__name__)


class Models:
    """The models of a server; requests find theirs by name and version."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        """Take them; two of one name are a ValueError."""
        self._by_name: dict[str, ServedModel] = {}
        for model in models:
            other = self._by_name.setdefault(model.name, model)
            if other is not model:
                raise ValueError(
                    f"two models are called {model.name!r}: those of {other.base} and {model.base}; give one another "
                    "name with --model NAME=BASE"
                )
        self._is_draining = False

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._by_name.values())

    @property
    def is_ready(self) -> bool:
        """Whether new requests are welcome: the server is not about to stop."""
        return not self._is_draining

    def drain(self) -> None:
        """Be ready no more: the server is about to stop."""
        self._is_draining = True

    def named(self, name: str) -> ServedModel:
        """Return a model; a NotServedError says which there are."""
        if name not in self._by_name:
            names = ", ".join(repr(one) for one in self._by_name)
            raise NotServedError(f"there is no model {shown(name)}; this server has {names}")
        return self._by_name[name]

    def find(self, name: str, version: str | None = None) -> ServingModel:
        """Return what answers for a name, and a version if given; a NotServedError says which there are."""
        return self.named(name).find(version)

    def index(self, *, only_ready: bool = False) -> list[dict[str, Any]]:
        """Return all versions of all models, as Triton's repository index has them."""
        listed = [one for model in self for one in model.index()]
        return [one for one in listed if one["state"] == "READY"] if only_ready else listed

    @contextmanager
    def watched(self, seconds: float) -> Iterator[None]:
        """Look for new and removed versions every `seconds` while the block runs; 0 never looks."""
        stop = threading.Event()

        def watch() -> None:
            failures: dict[str, str] = {}
            while not stop.wait(seconds):
                for model in self:
                    self._refresh(model, failures)

        thread = threading.Thread(target=watch, name="watch versions", daemon=True)
        if seconds > 0:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            if seconds > 0:
                # A version that is being loaded just now is of no use any more.
                thread.join(1.0)

    def _refresh(self, model: ServedModel, failures: dict[str, str]) -> None:
        try:
            model.refresh()
            failures.pop(model.name, None)
        except Exception as error:  # noqa: BLE001  logged once, and tried again: what answers now goes on
            words = f"{type(error).__name__}: {error}"
            if failures.get(model.name) != words:
                _log.warning("model %r: looking for new versions failed: %s", model.name, words)
            failures[model.name] = words
