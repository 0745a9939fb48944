"""PsBenchMarkTask: measures parameter servers and keeps the fastest."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from monolith.data import Source, arrays
from monolith.hooks import Hook, RunContext, StepValues
from monolith.model import Mode
from monolith.model.hyper_params import InstantiableParams
from monolith.model.native_task import NativeTask
from monolith.model.native_task.task import InputFn, TaskModelFn, TaskSpec
from monolith.parallel.dense.control_clients import ControlClients
from monolith.parallel.dense.ps_variable import PsVariable
from monolith.parallel.dense.server_speed import host_of, measure_servers, order_servers
from monolith.wire import SharedSecret, TlsConfig

POLL_SECONDS = 0.5
SETTLE_SECONDS = 1.0
"""Workers that were ready at the same time have all seen it then."""

_READY_SHARE = 0.9
_READY_TIMEOUT_SECONDS = 3600.0
_DONE_TIMEOUT_SECONDS = 10.0
_SCOPE = "machine_benchmark_I_AM_PECULIAR"
_log = logging.getLogger(__name__)


@dataclass
class BenchmarkConfig:
    """What a benchmark of parameter servers needs, and where its result goes."""

    ps_list: list[str]
    """Addresses of the parameter servers; the benchmark replaces them by the best.

    They may have names without a port, such as "ps0": then they are the servers of the run, in this order.
    """

    num_ps_required: int
    """How many to keep."""

    num_workers: int
    """Workers that measure at the same time."""

    index: int
    """Number of this worker; 0 decides."""

    benchmark_secs: float = 60.0
    """How long to measure."""

    ps_str_overridden: str = ""
    """Parameter servers, with commas between; if given, nothing is measured and these are the result."""

    secret: SharedSecret | None = None
    """The job's secret, if the servers ask for one."""

    tls: TlsConfig | None = None
    """The job's certificates, if the servers ask for them."""

    def __post_init__(self) -> None:
        """Reject what cannot be measured."""
        if not 1 <= self.num_ps_required <= len(self.ps_list) or not 0 <= self.index < self.num_workers:
            raise ValueError(
                f"a benchmark keeps 1 to {len(self.ps_list)} servers, got num_ps_required={self.num_ps_required}; a "
                f"worker's index is below num_workers={self.num_workers}, got {self.index}"
            )


class PsBenchMarkTask(NativeTask):
    """A task of one step that measures the servers of `bm_config`; its `ps_list` then has the fastest, best first."""

    def __init__(self, params: Any = None) -> None:
        """Take parameters as `params()` gives them, with a `bm_config`."""
        super().__init__(params)
        self.create_embedding_feature_column("id")

    @classmethod
    def params(cls) -> InstantiableParams:
        """Return the parameters of a task, with `bm_config`."""
        made = super().params()
        made.define("bm_config", None, "A BenchmarkConfig.")
        return made

    def create_input_fn(self, mode: Mode) -> InputFn:
        """Return a function that returns a source of one small vector."""
        del mode
        return _constant_source

    def create_model_fn(self) -> TaskModelFn:
        """Return a function whose spec has the hook that measures."""
        hook = _BenchmarkWorkerHook(self.p.bm_config)

        def model_fn(features: dict[str, Any], mode: Mode, config: Any) -> TaskSpec:
            del features, config
            rows = self.lookup_embedding_slice(["id"], slice_name="unused", slice_dim=1)[0]  # every model looks up rows
            nothing = 0.0 * rows.squeeze(1)
            if mode == Mode.PREDICT:
                return TaskSpec(predictions=nothing)
            return TaskSpec(predictions=nothing, loss=nothing.sum(), hooks=(hook,))

        return model_fn


class _BenchmarkWorkerHook(Hook):
    """Waits for the other workers, measures, and takes the decision of worker 0."""

    def __init__(self, config: BenchmarkConfig) -> None:
        self._config = config
        self._servers: ControlClients | None = None

    def after_create_session(self, context: RunContext) -> None:
        """Wait until nine tenths of the workers are ready."""
        config = self._config
        if config.ps_str_overridden:
            return
        self._servers = _clients_of(config, context)
        flags = torch.zeros(config.num_workers, dtype=torch.bool)
        num_ps = len(config.ps_list)
        self._ready = self._variable("ready", flags)
        self._done = self._variable("done", flags)
        self._measured = self._variable("measured", torch.zeros(num_ps + 1, dtype=torch.float64))
        self._result = self._variable("result", torch.full((config.num_ps_required,), -1))
        self._ready.assign(True, index=config.index)
        wanted = int(_READY_SHARE * config.num_workers)
        _wait(lambda: int(self._ready.read().sum()) >= wanted, _READY_TIMEOUT_SECONDS, "the other workers to be ready")
        if config.num_workers > 1:
            time.sleep(SETTLE_SECONDS)

    def before_run(self, context: RunContext) -> None:
        """Measure, unless the result is there already."""
        if self._servers is None or self._has_result():
            context.request_stop()
            return
        begun = time.monotonic()
        found = measure_servers(self._servers, self._config.benchmark_secs, scope=_SCOPE)
        self._measured.assign_add(torch.tensor([*found, 1.0], dtype=torch.float64))
        _log.info("measured %d parameter servers in %.1f seconds", len(found), time.monotonic() - begun)

    def after_run(self, context: RunContext, values: StepValues) -> None:
        """End after one step."""
        del values
        context.request_stop()

    def end(self, context: RunContext) -> None:
        """Wait for the others and take the result."""
        config, servers = self._config, self._servers
        if servers is None:
            if config.ps_str_overridden and context.error is None:
                config.ps_list = config.ps_str_overridden.split(",")
            return
        with servers:
            if context.error is not None:
                return
            self._done.assign(True, index=config.index)
            try:
                _wait(lambda: bool(self._done.read().all()), _DONE_TIMEOUT_SECONDS, "the other workers to be done")
            except TimeoutError as error:
                _log.warning("%s; going on without them", error)
            if config.index == 0 and not self._has_result():
                self._result.assign(torch.tensor(self._best(servers)))
            _wait(self._has_result, _READY_TIMEOUT_SECONDS, "the decision of worker 0")
            config.ps_list = [config.ps_list[number] for number in self._result.read().tolist()]

    def _best(self, servers: ControlClients) -> list[int]:
        *totals, count = self._measured.read().tolist()
        means = [total / count for total in totals]
        for name, mean in zip(self._config.ps_list, means, strict=True):
            _log.info("parameter server %s: %.1f calls per second", name, mean)
        hosts = [host_of(address) for address in servers.addresses]
        return order_servers(hosts, means)[: self._config.num_ps_required]

    def _has_result(self) -> bool:
        return bool((self._result.read() >= 0).all())

    def _variable(self, name: str, initial_value: Tensor) -> PsVariable:
        assert self._servers is not None
        return PsVariable(self._servers, name=f"{_SCOPE}/{name}", initial_value=initial_value)


def _clients_of(config: BenchmarkConfig, context: RunContext) -> ControlClients:
    names = [name for name in config.ps_list if ":" not in name]
    if not names:
        return ControlClients(config.ps_list, secret=config.secret, tls=config.tls)
    tables: Any = context.tables
    if len(names) != len(config.ps_list) or getattr(tables, "num_shards", 0) != len(names):
        raise ValueError(
            f"ps_list={config.ps_list}: servers without a port are those of this run, which has "
            f"{getattr(tables, 'num_shards', 0)}; set num_ps={len(config.ps_list)}, or give all addresses as HOST:PORT"
        )
    clients: ControlClients = tables.control_clients()
    return clients


def _constant_source() -> Source:
    columns = {"id": torch.tensor([0]), "x": torch.tensor([[0.12, 0.23, 0.34, 0.45]])}
    return arrays(columns, batch_size=1).repeat()


def _wait(is_there: Callable[[], bool], timeout_seconds: float, words: str) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not is_there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_seconds} seconds for {words}")
        time.sleep(POLL_SECONDS)
