"""ServiceSource: the batches of a data service, as a source for one trainer."""

import contextlib
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from monolith.closing import Closing
from monolith.data.batch import Batch
from monolith.data.schema import Schema
from monolith.data.source import State, check_shard
from monolith.data_service.hand_over import BEGAN_KEY, HAND_OVER_KEY, holding_of, stand_of, tables_of
from monolith.data_service.holding import Holding
from monolith.data_service.patient_client import PatientClient
from monolith.data_service.requests import ServiceRequest, ask
from monolith.data_service.trainer.membership import Membership
from monolith.data_service.trainer.split_puller import SPLITS_IN_FLIGHT, PullConfig, SplitPuller
from monolith.errors import RemoteError
from monolith.wire import Address, Message, SharedSecret, TlsConfig

_PAUSE_SECONDS = 0.1


class ServiceSource(Closing):
    """What one trainer gets of the data that a service reads; a `Source`.

    The dispatcher gives out splits on demand, so a faster trainer gets more. Batches of a split come in order; splits
    are mixed. What is promised, for each round:

    * **Every record goes to exactly one trainer**, also if workers or the dispatcher are killed and started again.
    * **A trainer that stops and is restored from its checkpoint** gets exactly what it had not got at the checkpoint,
      if it is back before its lease has run out, or before another trainer asked for work.
    * **A trainer that is lost for good** loses its splits to others once its lease has run out. They go on where it
      last reported to be (about every two seconds, and whenever a split ends). Nothing is left out; batches that it
      took after that report are yielded once more, to another trainer.

    Batches keep their offsets. Partitions are named after split and round: "3/clicks.csv@0" is what split 3 has of
    "clicks.csv" in round 0, and its offsets only grow.

    Steps with a memory, such as shuffling over a window, belong into the service's input: what they are given here
    comes in another order each time.

    Args:
        dispatcher: Address of the dispatcher.
        trainer: Name of this trainer, which no other has, and which it has again after a restart.
        num_rounds: The source ends after this number of passes over the data; None never ends.
        wait_for_others: End a round when all trainers have finished theirs, so as to take over from one that is lost;
            False ends it when there is no split left to take.
        shares_splits: Parts of this source, one per trainer, take any split that is free. False gives each part
            splits of its own.
        splits_in_flight: Splits that are read at the same time. One makes the order that of the splits.
        prefetch_batches: Batches that wait in this process.
        pull_timeout_seconds: A worker silent for so long is replaced by another.
        patience_seconds: If no worker, or no dispatcher, can be reached for so long, a TimeoutError with its address
            is raised.
        tls: Certificate of this process, if the service has TLS.
        secret: What the processes of the service know, if it has one.
    """

    shares_out = True
    """Each event goes to one trainer: going back would let others read it again."""

    def __init__(
        self,
        dispatcher: str | Address,
        *,
        trainer: str,
        num_rounds: int | None = 1,
        wait_for_others: bool = True,
        shares_splits: bool = False,
        splits_in_flight: int = SPLITS_IN_FLIGHT,
        prefetch_batches: int = 16,
        pull_timeout_seconds: float = 15.0,
        patience_seconds: float = 60.0,
        tls: TlsConfig | None = None,
        secret: SharedSecret | None = None,
    ) -> None:
        if not trainer:
            raise ValueError("a trainer needs a name of its own, such as trainer='trainer-0'")
        if num_rounds is not None and num_rounds <= 0:
            raise ValueError(f"num_rounds must be positive, or None for ever, got {num_rounds}")
        self._dispatcher = str(Address.parse(dispatcher))
        self._trainer = trainer
        self._num_rounds = num_rounds
        self._wait_for_others, self._shares_splits = wait_for_others, shares_splits
        self._parts: tuple[tuple[int, int], ...] = ()
        self._family, self._siblings = trainer, [trainer]
        self._began: list[dict[str, Any]] = []
        self._schema: Schema | None = None
        self._membership: Membership | None = None
        self._pull = PullConfig(
            splits_in_flight=splits_in_flight,
            prefetch_batches=prefetch_batches,
            pull_timeout_seconds=pull_timeout_seconds,
            patience_seconds=patience_seconds,
            tls=tls,
            secret=secret,
        )

    @property
    def schema(self) -> Schema:
        """The columns of every batch; waits for the first worker, which knows them."""
        if self._schema is None:
            self._schema = self._ask_schema()
        return self._schema

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches until the rounds are over.

        Raises:
            TimeoutError: The dispatcher, or any worker, could not be reached for `patience_seconds`.
            FencedError: Another process has joined under this trainer's name.
            RemoteError: The input failed in a worker; the message has its words.
        """
        member = self._member()
        while self._num_rounds is None or member.share.round < self._num_rounds:
            share = member.share
            share.confirm()
            with SplitPuller(member, self._pull) as flow:
                for arrival in flow:
                    member.keep_lease()
                    lease, batch = arrival.lease, arrival.batch
                    if batch is None:
                        share.finish(lease)
                        member.report_soon()
                    elif share.deliver(lease, arrival.position):
                        # Several splits may share a partition of the input, each in an order of its own.
                        yield replace(batch, partition=f"{lease.split}/{batch.partition}@{share.round}")
                        share.confirm()
            member.next_round()

    def state(self) -> State:
        """Return the round, the position in each split that was begun, and the splits that are done.

        After another number of trainers has begun, the first one keeps where the service stood then.
        """
        holding = Holding() if self._membership is None else self._membership.share.checkpoint()
        return {**holding.to_json(), **({BEGAN_KEY: self._began} if self._began else {})}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position, and tell the dispatcher: what this trainer had beyond it goes back to be read again."""
        self._began = list(state.get(BEGAN_KEY, ()))
        if set(state) == {HAND_OVER_KEY}:
            self._began = list(state[HAND_OVER_KEY])
            self._hand_over(self._began)
        self._join(holding_of(state, min(tables_of([state]), default=0)))

    def shard(self, num_shards: int, index: int) -> Self:
        """Return a source for a trainer of its own: of every `num_shards`-th split from `index` on, or of any split."""
        check_shard(num_shards, index)
        part = type(self)(self._dispatcher, trainer=f"{self._trainer}/{index}of{num_shards}")
        part._num_rounds, part._wait_for_others, part._pull = self._num_rounds, self._wait_for_others, self._pull
        part._shares_splits = self._shares_splits
        part._siblings = [f"{self._trainer}/{one}of{num_shards}" for one in range(num_shards)]
        part._family = self._trainer
        part._parts = self._parts if self._shares_splits else (*self._parts, (num_shards, index))
        return part

    fixed_parts = "a data service gives each split to a worker that is free, and a step mixes them"
    """Why another number of workers cannot go on behind a step that has no position for each split."""

    def redivide(self, positions: Sequence[Mapping[str, Any] | None], num_workers: int) -> list[State | None]:
        """Let the first worker give the service its place anew, and all of them take splits from there on.

        Raises:
            ValueError: There are fewer splits than workers.
        """
        splits = self._splits_of(num_workers)
        if not all(splits):
            raise ValueError(
                f"the data service has cut the data into {self._num_splits()} splits, and {num_workers} workers need "
                "at least one each; go on with fewer workers, or share the splits with --enable-dynamic-sharding"
            )
        if all(one is None for one in positions):
            return [None] * num_workers
        stand = stand_of(positions, self._splits_of(len(positions)))
        return [{HAND_OVER_KEY: list(stand.values())}, *[None] * (num_workers - 1)]

    def begin_anew(self) -> None:
        """Tell the dispatcher that all trainers begin at the start of the data, whatever others had read.

        A service that feeds other trainers too is left as it is.
        """
        with contextlib.suppress(RemoteError):
            self._hand_over([])

    def close(self) -> None:
        """Leave the service: others may take at once what this trainer has not finished. Iterating joins again."""
        if self._membership is not None:
            self._membership.share.confirm()
            self._membership.leave()

    def _member(self) -> Membership:
        if self._membership is None or self._membership.is_over:
            return self._join(holding_of(self.state()))
        return self._membership

    def _join(self, holding: Holding) -> Membership:
        if self._membership is not None:
            self._membership.end()
        self._membership = member = Membership(
            self._dispatcher,
            self._trainer,
            holding,
            parts=self._parts,
            wait_for_others=self._wait_for_others,
            patience_seconds=self._pull.patience_seconds,
            tls=self._pull.tls,
            secret=self._pull.secret,
        )
        weakref.finalize(self, member.end)
        return member

    def _splits_of(self, num_workers: int) -> list[range]:
        """Return which splits each worker may read, if there are `num_workers`."""
        every = range(self._num_splits())
        for count, index in self._parts:
            every = every[index::count]
        return [every if self._shares_splits else every[index::num_workers] for index in range(num_workers)]

    def _num_splits(self) -> int:
        return int(self._ask(ask(ServiceRequest.DESCRIBE))["num_splits"])

    def _hand_over(self, tables: Sequence[Mapping[str, Any]]) -> None:
        who = {"family": self._family, "trainers": self._siblings, "token": uuid.uuid4().hex}
        self._ask(ask(ServiceRequest.HAND_OVER, tables=list(tables), **who))

    def _ask(self, message: Message) -> dict[str, Any]:
        pull = self._pull
        client = PatientClient(
            self._dispatcher, "dispatcher", patience_seconds=pull.patience_seconds, tls=pull.tls, secret=pull.secret
        )
        try:
            return dict(client.request(message).meta)
        finally:
            client.close()

    def _ask_schema(self) -> Schema:
        patience = self._pull.patience_seconds
        give_up = time.monotonic() + patience
        while (text := self._ask(ask(ServiceRequest.DESCRIBE))["schema"]) is None:
            if time.monotonic() > give_up:
                raise TimeoutError(
                    f"no data worker has registered with the dispatcher at {self._dispatcher} for {patience:g} "
                    f"seconds; start one with: monolith data-service worker --dispatcher {self._dispatcher}"
                )
            time.sleep(_PAUSE_SECONDS)
        return Schema.from_json(text)
