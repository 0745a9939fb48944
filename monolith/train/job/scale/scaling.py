"""Scaling: the chief's side of `monolith scale`."""

import secrets
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from monolith.train.job.scale.shape import JobShape, ScaleOutcome

Check = Callable[[JobShape], None]


class Scaling:
    """Takes the wish for another shape of the job, and notes what became of it."""

    def __init__(self, folder: Path, shape: JobShape) -> None:
        """Take the cluster's folder of the job, and its present shape."""
        self._folder, self._shape = folder, shape
        self._lock = threading.Lock()
        self._request = ""
        self.wanted: JobShape | None = None
        """What was asked for and not called off."""
        self.check: Check = lambda shape: None
        """Raises a ValueError for a shape that the job cannot have."""
        self.stop: Callable[[], None] = lambda: None
        """Ends the training of this process after its present step."""

    def ask(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Begin to stop for another shape; a number that is not given stays as it is.

        Raises:
            ValueError: The job cannot have this shape, has it already, or is being scaled.
        """
        numbers = {name: meta.get(name) for name in ("num_ps", "num_workers")}
        wrong = {name: one for name, one in numbers.items() if one is not None and type(one) is not int}
        if wrong:
            raise ValueError(f"a job is scaled to whole numbers, got {wrong}")
        present = {"num_ps": self._shape.num_ps, "num_workers": self._shape.num_workers}
        shape = JobShape(**{name: present[name] if one is None else one for name, one in numbers.items()})
        with self._lock:
            if self.wanted is not None:
                raise ValueError(f"the job is being scaled to {self.wanted}; wait until it goes on, and ask again")
            if shape == self._shape:
                raise ValueError(f"the job has {shape} already; ask for other numbers")
            self.check(shape)
            self.wanted, self._request = shape, secrets.token_hex(8)
        self.stop()
        return {"request": self._request, **{name: getattr(shape, name) for name in present}}

    def finish(self, step: int, last_step: int | None, *, is_scaled: bool) -> JobShape | None:
        """Note that the job has stopped for its new shape, or has come to its end before; return the new shape."""
        if self.wanted is None:
            return None
        self._write("scaled" if is_scaled else "over", step, last_step)
        return self.wanted if is_scaled else None

    def call_off(self, step: int, reason: str) -> None:
        """Note that the job goes on as it was; another request may come."""
        self._write("called off", step, None, reason)
        self.wanted = None

    def status(self) -> dict[str, Any]:
        """Return what the status of the job says of it."""
        wanted = self.wanted
        return {} if wanted is None else {"scaling_to": {"num_ps": wanted.num_ps, "num_workers": wanted.num_workers}}

    def _write(self, what: Any, step: int, last_step: int | None, reason: str = "") -> None:
        assert self.wanted is not None
        ScaleOutcome(
            request=self._request, what=what, shape=self.wanted, step=step, last_step=last_step, reason=reason
        ).write(self._folder)
