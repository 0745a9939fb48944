"""ParameterServer: a process, or a thread of one, that holds one shard of a model for all workers."""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any

from monolith.checkpoint.save.pending_save import stand_back
from monolith.closing import Closing
from monolith.delta import DeltaSettings
from monolith.errors import FencedError, PlanMismatchError
from monolith.model import LookupPlan
from monolith.observe.machine_health import MachineInfo, health_report
from monolith.parallel.control import EMPTY, BeginAgainError, ControlRequest, check_protocol, failure
from monolith.parallel.dense.requests import REFUSED, DenseRequest
from monolith.parallel.dense.variable_store import VariableStore
from monolith.parallel.dense_shard import FIRST_TYPE, LAST_TYPE, DenseShard
from monolith.parallel.live.served_changes import DELTA_SECONDS, ServedChanges
from monolith.parallel.messages import TableRequest, Welcome
from monolith.parallel.shard.served_shard import ServedShard
from monolith.parallel.table_server import check_proof
from monolith.wire import Address, FrameLimits, LastReply, Message, SharedSecret, TlsConfig, listen

_MAX_REMEMBERED = 16
"""Ended pieces of work whose result can still be asked for."""

_WAIT_SECONDS = 1.0
"""How long a question for a result is held before the answer is "not yet"."""


class ParameterServer(Closing):
    """Holds a shard of a model at one address until it is closed; it knows nothing of the model's code.

    It starts empty. The chief sends the lookup plan, which shard of how many it is, and where to restore from; then it
    lets clients in. A connection that begins with a hello becomes one of `ServedTables`; other messages are answered
    here, by their type.
    """

    def __init__(
        self,
        address: str | Address = "127.0.0.1:0",
        *,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        insecure: bool = False,
        max_connections: int = 1024,
        max_frame_bytes: int = 1 << 30,
        machine: MachineInfo | None = None,
    ) -> None:
        """Listen; clients prove who they are by the job's secret or a certificate.

        `machine` says what this process may use; it only counts in the health that `status` reports.
        """
        check_proof(secret, tls, insecure=insecure)
        self._machine = machine or MachineInfo()
        self._shard: ServedShard | None = None
        self._changes: ServedChanges | None = None
        self._tls = tls
        self._variables = VariableStore()
        self._lock = threading.RLock()
        self._work: dict[str, Future[Any]] = {}
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="parameter-server-write", initializer=stand_back)
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="parameter-server-read")
        self._shutdown = threading.Event()
        self._answers: dict[int, Callable[[Message], dict[str, Any]]] = {
            ControlRequest.INIT: self._init,
            ControlRequest.STATUS: self._status,
            ControlRequest.READY: self._ready,
            ControlRequest.FREEZE: self._freeze,
            ControlRequest.WRITE: self._write,
            ControlRequest.DROP: self._drop,
            ControlRequest.UNTRACK: self._untrack,
            ControlRequest.RESTORE: self._restore,
            ControlRequest.WAIT: self._result,
            ControlRequest.FOLLOW: self._follow,
            ControlRequest.PUSH: self._push,
            ControlRequest.EXPORT: self._export,
            ControlRequest.APPLIED: self._applied,
            ControlRequest.FORGET: self._forget,
        }
        self._server = listen(
            address,
            self._answer,
            tls=tls,
            secret=secret,
            insecure=insecure,
            limits=FrameLimits(max_frame_bytes=max_frame_bytes),
            max_connections=max_connections,
        )
        # A process that ends cannot wait for a thread in native code, nor stop it: its connections are cut before.
        self._at_exit = weakref.finalize(self, self._server.close)

    @property
    def address(self) -> Address:
        """Where it listens, with the port that the system chose."""
        return self._server.address

    @property
    def shard(self) -> ServedShard:
        """What it holds; a BeginAgainError before the chief has said what that is."""
        shard = self._shard
        if shard is None:
            raise BeginAgainError(EMPTY)
        return shard

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the chief ends it; False if that did not happen in time."""
        return self._shutdown.wait(timeout_seconds)

    def close(self) -> None:
        """Stop listening and cut the connections; what is being written is finished."""
        self._at_exit()
        self._end_changes()
        for pool in (self._writer, self._reader):
            pool.shutdown()
        if self._shard is not None:
            self._shard.stop_tracking()

    def _answer(self, message: Message) -> Message:
        if message.type == TableRequest.HELLO:
            return self._welcome(message)
        if message.type in VariableStore.TYPES:  # also while it is empty: a job measures and greets its servers first
            return self._variables.answer(message)
        if FIRST_TYPE <= message.type <= LAST_TYPE:
            return self._answer_dense(message)
        check_protocol(message)
        if message.type == ControlRequest.SHUTDOWN:  # the process may end as soon as the chief has its answer
            return LastReply(type=message.type, serve_on=lambda connection: self._shutdown.set())
        answer = self._answers.get(message.type)
        if answer is None:
            raise ValueError(f"a parameter server has no answer to messages of type {message.type}")
        # Two questions need no turn: others may wait for work that takes minutes.
        with nullcontext() if message.type in (ControlRequest.STATUS, ControlRequest.WAIT) else self._lock:
            try:
                meta = answer(message)
            except (OSError, ValueError, FencedError) as error:
                meta = {"failure": failure(error)}
        return Message(type=message.type, meta=meta)

    def _welcome(self, message: Message) -> Message:
        with self._lock:
            shard = self._shard
            # One of an earlier generation hears that it is fenced: after a wait in vain it would take the job back.
            if shard is not None and (shard.is_ready or 0 < message.generation < shard.generation):
                return shard.served.welcome(message)
        detail = "this parameter server has no state yet; the chief makes or restores it first"
        meta = {"status": Welcome.NOT_READY, "detail": detail}
        return LastReply(type=message.type, meta=meta, serve_on=lambda connection: None)  # it is closed

    def _answer_dense(self, message: Message) -> Message:
        """Answer for the dense shard, unless the message is of another life of the job."""
        shard = self._shard
        makes = message.type in (DenseRequest.CREATE, DenseRequest.JOIN)
        if shard is None and message.type == DenseRequest.JOIN:
            return DenseShard().answer(message)  # not yet: the worker asks again
        if shard is not None and message.generation not in (0, shard.generation):
            words = f"this parameter server is of generation {shard.generation} of its job, not {message.generation}"
            return Message(type=message.type, meta={REFUSED: Welcome.GENERATION, "detail": words})
        if shard is None or not (makes or shard.dense_shard.is_created):
            words = "this parameter server has no dense parameters yet; the chief creates them first"
            return Message(type=message.type, meta={REFUSED: Welcome.NOT_READY, "detail": words})
        return shard.dense_shard.answer(message)

    def _init(self, message: Message) -> dict[str, Any]:
        meta = message.meta
        generation, index, num_shards = int(meta["generation"]), int(meta["shard"]), int(meta["num_shards"])
        shard = self._shard
        if shard is not None and generation < shard.generation:
            raise FencedError(
                f"this parameter server belongs to generation {shard.generation} of its job, the chief is of "
                f"{generation}: another chief has taken over; stop this one"
            )
        plan = LookupPlan.from_json(str(meta["plan"]))
        hello = None if shard is None else shard.served.hello
        # Without its state it holds what an attempt left that ended early.
        if shard is None or bool(meta["anew"]) or (generation > shard.generation and not shard.is_initialized()):
            self._finish_work()
            if shard is not None:
                shard.served.close()
                shard.stop_tracking()
            self._end_changes()
            capacity = int(meta["initial_capacity"])
            self._shard = ServedShard(index, num_shards, plan, initial_capacity=capacity, generation=generation)
        elif hello is not None and (hello.plan_hash, hello.shard, hello.num_shards) != (plan.hash, index, num_shards):
            raise PlanMismatchError(
                f"this parameter server holds shard {hello.shard} of {hello.num_shards} of the plan "
                f"{hello.plan_hash:016x}, not {index} of {num_shards} of {plan.hash:016x}; start it anew"
            )
        elif generation > shard.generation:
            self._finish_work()
            self._end_changes()  # serving gets all rows once in every generation
            shard.begin_generation(generation)
        return self._status(message)

    def _status(self, message: Message) -> dict[str, Any]:
        shard, health = self._shard, health_report(self._machine)
        if shard is None:
            return {"shard": None, "is_initialized": False, "is_ready": False, "health": health}
        hello = shard.served.hello
        return {
            "shard": hello.shard,
            "num_shards": hello.num_shards,
            "plan_hash": f"{hello.plan_hash:016x}",
            "generation": shard.generation,
            "is_initialized": shard.is_initialized(),
            "is_ready": shard.is_ready,
            "progress": shard.progress(),
            "num_rows": {name: len(table) for name, table in shard.tables.tables.items()},
            "bytes": {name: table.memory().bytes_total for name, table in shard.tables.tables.items()},
            "health": health,
        }

    def _ready(self, message: Message) -> dict[str, Any]:
        shard = self._shard_of(message)
        shard.mark_initialized()
        shard.is_ready = True
        return {}

    def _shard_of(self, message: Message) -> ServedShard:
        """Return what it holds to a chief of its generation, or to one that says none."""
        shard, generation = self.shard, message.meta.get("generation")
        if generation not in (None, shard.generation):
            raise FencedError(f"this parameter server is of generation {shard.generation} of its job, not {generation}")
        return shard

    def _applied(self, message: Message) -> dict[str, Any]:
        return {"rows": self.shard.served.applied_batches(), "dense": self.shard.dense_shard.applied_batches()}

    def _forget(self, message: Message) -> dict[str, Any]:
        self._finish_work()
        ids = {str(table): {int(one) for one in these} for table, these in message.meta["ids"].items()}
        return dict(self.shard.forget(ids))

    def _freeze(self, message: Message) -> dict[str, Any]:
        self._finish_work()
        progress = {str(name): (int(time), int(step)) for name, (time, step) in message.meta["progress"].items()}
        return {"known": self.shard.freeze(str(message.meta["save"]), progress, bool(message.meta["track"]))}

    def _write(self, message: Message) -> dict[str, Any]:
        meta, shard = message.meta, self.shard

        def write() -> dict[str, int]:
            marks = int(meta["generation"]), int(meta["epoch"])
            return shard.write_part(str(meta["save"]), str(meta["folder"]), *marks, bool(meta["changes"]))

        return self._start(self._writer, str(meta["work"]), write)

    def _drop(self, message: Message) -> dict[str, Any]:
        self._finish_work()
        self.shard.drop_part(str(message.meta["save"]))
        return {}

    def _untrack(self, message: Message) -> dict[str, Any]:
        self._finish_work()
        self.shard.stop_tracking()
        return {}

    def _restore(self, message: Message) -> dict[str, Any]:
        meta, shard = message.meta, self._shard_of(message)
        if str(meta["work"]) not in self._work:
            self._finish_work()

        def restore() -> None:
            shard.restore_part(str(meta["path"]), bool(meta["drop_not_finite"]), bool(meta["positions"]))

        return self._start(self._reader, str(meta["work"]), restore)

    def _follow(self, message: Message) -> dict[str, Any]:
        meta, folder = message.meta, message.meta["secret_folder"]
        settings = DeltaSettings(
            request_timeout_seconds=DELTA_SECONDS,
            tls=None if folder is not None else self._tls,
            secret=None if folder is None else SharedSecret.of_folder(str(folder)),
            skip_zero_embedding=bool(meta["skip_zero_embedding"]),
        )
        self._served_changes(message).follow([str(target) for target in meta["targets"]], settings)
        return {}

    def _push(self, message: Message) -> dict[str, Any]:
        self._served_changes(message).push(str(message.meta["work"]), str(message.meta["target"]))
        return {}

    def _export(self, message: Message) -> dict[str, Any]:
        meta = message.meta
        changes = self._served_changes(message)
        changes.export(str(meta["work"]), str(meta["folder"]), skip_zero_embedding=bool(meta["skip_zero_embedding"]))
        return {}

    def _served_changes(self, message: Message) -> ServedChanges:
        """Return what serves the changes of this life of the job."""
        shard, generation = self.shard, int(message.meta["generation"])
        known = shard.generation if self._changes is None else self._changes.generation
        if generation < known:
            raise FencedError(f"this parameter server is of generation {known} of its job, not {generation}")
        if self._changes is None or generation > known:
            self._end_changes()
            hello = shard.served.hello
            place = hello.shard, hello.num_shards
            self._changes = ServedChanges(shard.tables, place, plan_hash=shard.plan.hash, generation=generation)
        return self._changes

    def _end_changes(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _start(self, pool: ThreadPoolExecutor, name: str, work: Callable[[], Any]) -> dict[str, Any]:
        """Begin work that may take minutes; a request that comes a second time begins nothing."""
        if name not in self._work:
            for old in [one for one, future in self._work.items() if future.done()][:-_MAX_REMEMBERED]:
                del self._work[old]
            self._work[name] = pool.submit(work)
        return {}

    def _result(self, message: Message) -> dict[str, Any]:
        name, changes = str(message.meta["work"]), self._changes
        future = self._work.get(name) or (None if changes is None else changes.work.get(name))
        if future is None:
            return {"failure": failure(BeginAgainError("this parameter server was started anew since; begin again"))}
        wait([future], _WAIT_SECONDS)
        if not future.done():
            return {"is_done": False}
        error = future.exception()
        return {"is_done": True, "result": future.result()} if error is None else {"failure": failure(error)}

    def _finish_work(self) -> None:
        """Wait for work under way: it must not be changed under its hands."""
        for future in self._work.values():
            future.exception()
