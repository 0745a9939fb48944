"""Chief and workers that wait for each other: workers for the restore, the chief for the last worker."""

import logging
import threading
import time
from contextlib import ExitStack

import torch
from torch import Tensor

from monolith.closing import Closing
from monolith.hooks import Hook, RunContext
from monolith.parallel.dense.control_clients import ControlClients
from monolith.parallel.dense.ps_variable import PsVariable
from monolith.wire import Address, SharedSecret, TlsConfig

POLL_SECONDS = 1.0

_DEVICE = "/job:chief/task:0"
_log = logging.getLogger(__name__)


class SyncHelper(Closing):
    """A flag per worker that all processes see: flag 0 says that the chief has restored, flag i that worker i runs.

    `var_device` is the address of the parameter server that keeps the flags. If it is the name of a device, as in the
    original, this object keeps them: enough for threads of one process.
    """

    def __init__(
        self,
        num_workers: int,
        is_chief: bool,
        var_device: str | Address = _DEVICE,
        *,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
    ) -> None:
        """Make the flags, all False, unless another process made them before."""
        if num_workers < 1:
            raise ValueError(f"there is at least the chief among num_workers, got {num_workers}")
        self.num_workers, self.is_chief = num_workers, is_chief
        self._cleanup = ExitStack()
        self._lock = threading.Lock()
        self._here = torch.zeros(num_workers, dtype=torch.bool)
        self._there: PsVariable | None = None
        if not str(var_device).startswith("/job:"):
            servers = self._cleanup.enter_context(ControlClients([var_device], secret=secret, tls=tls))
            self._there = PsVariable(servers, name="sync_hooks/control_var", initial_value=self._here)

    def mark_restore_done(self) -> None:
        """Let all workers begin."""
        self._set(0, value=True)

    def get_restore_status(self) -> bool:
        """Return whether the chief has restored."""
        return bool(self._flags()[0])

    def start_worker(self, index: int) -> None:
        """Note that a worker runs."""
        self._set(self._worker(index), value=True)

    def finish_worker(self, index: int) -> None:
        """Note that a worker has ended."""
        self._set(self._worker(index), value=False)

    def get_alive_workers(self) -> list[int]:
        """Return the workers that run, without the chief."""
        return [index for index, is_alive in enumerate(self._flags().tolist()) if is_alive and index > 0]

    def get_num_alive_workers(self) -> int:
        """Return how many workers run, without the chief."""
        return len(self.get_alive_workers())

    def close(self) -> None:
        """Close the connection to the parameter server, if there is one."""
        self._cleanup.close()

    def _worker(self, index: int) -> int:
        if not 0 < index < self.num_workers:
            raise ValueError(f"Index {index} is out range; workers have numbers from 1 to {self.num_workers - 1}")
        return index

    def _flags(self) -> Tensor:
        with self._lock:
            return self._here.clone() if self._there is None else self._there.read()

    def _set(self, index: int, *, value: bool) -> None:
        with self._lock:
            if self._there is None:
                self._here[index] = value
            else:
                self._there.assign(value, index=index)


class ChiefSyncHook(Hook):
    """Lets workers begin once the chief has restored, and lets the chief end after the last of them."""

    def __init__(self, sync_helper: SyncHelper, timeout_seconds: float = 1800) -> None:
        """Take the flags, and how long to wait for the workers at most."""
        self._helper = sync_helper
        self._timeout_seconds = timeout_seconds

    def after_create_session(self, context: RunContext) -> None:
        """Let workers begin."""
        del context
        self._helper.mark_restore_done()

    def end(self, context: RunContext) -> None:
        """Wait until no worker runs; a chief that failed does not wait."""
        if context.error is not None:
            return
        deadline = time.monotonic() + self._timeout_seconds
        while (alive := self._helper.get_alive_workers()) and (left := deadline - time.monotonic()) > 0:
            _log.info("waiting for workers %s, at most %.0f seconds more", alive, left)
            time.sleep(min(POLL_SECONDS, left))
        if alive:
            _log.warning("workers %s did not end within %s seconds", alive, self._timeout_seconds)


class WorkerSyncHook(Hook):
    """Holds a worker back until the chief has restored, and says when the worker has ended.

    A worker that fails counts as running: it will be started again.
    """

    def __init__(self, worker_index: int, sync_helper: SyncHelper) -> None:
        """Take the worker's number, from 1 on, and the flags."""
        self._index = worker_index
        self._helper = sync_helper

    def after_create_session(self, context: RunContext) -> None:
        """Say that the worker runs, and wait for the chief, or until somebody asks for a stop."""
        self._helper.start_worker(self._index)
        while not self._helper.get_restore_status() and not context.stop_requested:
            time.sleep(POLL_SECONDS)

    def end(self, context: RunContext) -> None:
        """Say that the worker has ended."""
        if context.error is None:
            self._helper.finish_worker(self._index)


class TrainingHooksHelper:
    """The hooks of one process of a job; none if they are not wanted."""

    def __init__(
        self,
        enable_sync: bool,
        num_workers: int,
        worker_idx: int,
        chief_timeout_seconds: float = 1800,
        *,
        var_device: str | Address = _DEVICE,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
    ) -> None:
        """Make them; worker 0 is the chief."""
        self._chief_hooks: tuple[Hook, ...] = ()
        self._worker_hooks: tuple[Hook, ...] = ()
        if not enable_sync:
            return
        is_chief = worker_idx == 0
        helper = SyncHelper(num_workers, is_chief, var_device, secret=secret, tls=tls)
        if is_chief:
            self._chief_hooks = (ChiefSyncHook(helper, chief_timeout_seconds),)
        else:
            self._worker_hooks = (WorkerSyncHook(worker_idx, helper),)

    @property
    def training_chief_hooks(self) -> tuple[Hook, ...]:
        """Hooks of the chief alone."""
        return self._chief_hooks

    @property
    def training_hooks(self) -> tuple[Hook, ...]:
        """Hooks of a worker."""
        return self._worker_hooks
