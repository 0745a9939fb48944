"""RemoteShard: the shard of a parameter server, as the chief uses it."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from monolith.closing import Closing
from monolith.errors import CorruptFrameError
from monolith.model import LookupPlan
from monolith.parallel.control import EMPTY, BeginAgainError, ControlRequest, raise_failure, request
from monolith.parallel.server_group import CallPatience, GivenUp, RetryConfig
from monolith.wire import Address, Client, Message, SharedSecret, TlsConfig

_NEED_NO_TURN = (ControlRequest.STATUS, ControlRequest.WAIT)


class RemoteShard(Closing):
    """A `Shard` on a parameter server. Requests are repeated until they are answered or their time is over.

    Writing and restoring take as long as they take: the server is asked again and again whether it is done, and only
    a server that does not answer is given up.
    """

    def __init__(
        self,
        address: str | Address,
        *,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        retry: RetryConfig | None = None,
        given_up: GivenUp | None = None,
    ) -> None:
        """Remember where the server is; nothing is connected yet."""
        self.address = Address.parse(address)
        self._retry, self._secret, self._tls = retry or RetryConfig(), secret, tls
        self._given_up = given_up
        self._generation: int | None = None  # of the chief that uses it
        self._client = Client(self.address, secret=secret, tls=tls, connect_timeout_seconds=self._retry.connect_seconds)

    def another(self, retry: RetryConfig | None = None) -> "RemoteShard":
        """Return the same shard over another connection, whose requests wait for none of this one."""
        # With less patience than others have, it must not give a server up for all of them.
        given_up = self._given_up if retry is None else None
        retry = retry or self._retry
        return RemoteShard(self.address, secret=self._secret, tls=self._tls, retry=retry, given_up=given_up)

    def init(
        self,
        plan: LookupPlan,
        index: int,
        num_shards: int,
        *,
        generation: int,
        anew: bool = False,
        initial_capacity: int = 0,
    ) -> dict[str, Any]:
        """Say which shard the server holds, and which generation of the job it serves; return its `status`.

        A server that holds this shard keeps its rows, unless it is to begin `anew`. One of an earlier generation cuts
        its clients and lets none in until `mark_initialized`; if it never had its state, it begins anew too.

        Raises:
            FencedError: The server belongs to a later generation.
            PlanMismatchError: The server holds another shard, or that of another plan.
        """
        status = self._ask(
            ControlRequest.INIT,
            plan=plan.to_json(),
            shard=index,
            num_shards=num_shards,
            generation=generation,
            anew=anew,
            initial_capacity=initial_capacity,
        )
        self._generation = generation
        return status

    def status(self) -> dict[str, Any]:
        """Return what the server holds: shard, generation, rows and bytes by table; shard None if it is empty."""
        return self._ask(ControlRequest.STATUS)

    def applied(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the end of the last batch that was applied of each partition, to rows and to dense weights."""
        said = self._ask(ControlRequest.APPLIED)
        return said["rows"], said["dense"]

    def is_initialized(self) -> bool:
        """Return whether it has the state it should have."""
        return bool(self.status()["is_initialized"])

    def mark_initialized(self) -> None:
        """Let it know that it has its state, rows and dense weights; clients are let in from now on.

        Raises:
            FencedError: The server belongs to a later generation than that of `init`.
        """
        self._ask(ControlRequest.READY, generation=self._generation)

    def progress(self) -> dict[str, tuple[int, int]]:
        """Return time and step of the newest update of each table.

        Raises:
            BeginAgainError: The server is empty.
        """
        status = self.status()
        if status["shard"] is None:
            raise BeginAgainError(f"{self.address}: {EMPTY}")
        return {name: (time, step) for name, (time, step) in status["progress"].items()}

    def freeze(self, save: str, progress: Mapping[str, tuple[int, int]], track: bool) -> bool:
        """Take this moment; see `Shard.freeze`."""
        return bool(self._ask(ControlRequest.FREEZE, save=save, progress=dict(progress), track=track)["known"])

    def write_part(self, save: str, folder: str, generation: int, epoch: int, changes: bool) -> dict[str, int]:
        """Let it write what was frozen; both sides see the same files."""
        written = self._work(
            ControlRequest.WRITE,
            f"write {save}",
            save=save,
            folder=folder,
            generation=generation,
            epoch=epoch,
            changes=changes,
        )
        return dict(written)

    def drop_part(self, save: str) -> None:
        """Let go of what was frozen and not written."""
        self._ask(ControlRequest.DROP, save=save)

    def stop_tracking(self) -> None:
        """Count changes no longer."""
        self._ask(ControlRequest.UNTRACK)

    def forget(self, ids: Mapping[str, Collection[int]]) -> dict[str, dict[str, list[int]]]:
        """Let it remove rows and counts of ids; see `TableShard.forget`."""
        return self._ask(ControlRequest.FORGET, ids={table: sorted(these) for table, these in ids.items()})

    def restore_part(self, path: str, drop_not_finite: bool = False, positions: bool = True) -> None:
        """Let it become what it was in a snapshot or delta; both sides see the same files.

        Raises:
            FencedError: The server belongs to a later generation than that of `init`.
        """
        self._work(
            ControlRequest.RESTORE,
            f"restore {secrets.token_hex(8)}",
            path=path,
            generation=self._generation,
            drop_not_finite=drop_not_finite,
            positions=positions,
        )

    def follow(
        self, targets: Sequence[str], *, generation: int, secret_folder: str | None, skip_zero_embedding: bool
    ) -> None:
        """Let it count changes for serving targets from now on.

        It proves to them that it knows the shared secret in a folder that both sides see; without one, by certificates.
        """
        self._ask(
            ControlRequest.FOLLOW,
            targets=list(targets),
            generation=generation,
            secret_folder=secret_folder,
            skip_zero_embedding=skip_zero_embedding,
        )

    def push_changes(self, target: str, *, generation: int) -> dict[str, Any]:
        """Let it bring a serving target up to date with its rows; return the position of the target and what it got.

        Raises as `DeltaLink.push` does.
        """
        name = f"push {secrets.token_hex(8)}"
        return dict(self._work(ControlRequest.PUSH, name, target=target, generation=generation))

    def export_tables(self, folder: str, *, generation: int, skip_zero_embedding: bool) -> dict[str, Any]:
        """Let it write its rows as files to serve; both sides see the same files.

        Returns the number of its newest delta before that, and the number of rows by table.
        """
        name = f"export {secrets.token_hex(8)}"
        return dict(
            self._work(
                ControlRequest.EXPORT,
                name,
                folder=folder,
                generation=generation,
                skip_zero_embedding=skip_zero_embedding,
            )
        )

    def shut_down(self) -> None:
        """Let the server's process end."""
        self._ask(ControlRequest.SHUTDOWN)

    def close(self) -> None:
        """Close the connection; the server keeps what it holds."""
        self._client.close()

    def _work(self, type_: ControlRequest, work: str, **meta: Any) -> Any:
        self._ask(type_, work=work, **meta)
        while not (said := self._ask(ControlRequest.WAIT, work=work)).get("is_done"):
            pass
        return said.get("result")

    def _ask(self, type_: ControlRequest, **meta: Any) -> dict[str, Any]:
        said = dict(self._reply(request(type_, **meta)).meta)
        if "failure" in said:
            raise_failure(self.address, said["failure"])
        return said

    def _reply(self, message: Message) -> Message:
        patience = CallPatience(self._retry, self._given_up, [self.address])
        while True:
            deadline = patience.attempt()
            try:
                return self._client.request(message, deadline.remaining_seconds())
            except PermissionError:
                raise  # a wrong secret does not become right
            except (OSError, CorruptFrameError) as error:
                # One that listens and does not answer may be at work, unless the answer needs no turn.
                is_lost = message.type in _NEED_NO_TURN or not isinstance(error, TimeoutError)
                patience.pause(str(error), self.address if is_lost else None)
