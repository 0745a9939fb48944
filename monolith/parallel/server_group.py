"""All table servers of a job: one call to every one of them, tried again until it is done or its time is over."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from monolith._core import native
from monolith.closing import Closing
from monolith.errors import CorruptFrameError
from monolith.parallel.messages import raise_refusal
from monolith.parallel.server_link import ServerLink
from monolith.wire import Address, Deadline, Message
from monolith.wire.connection import Connection

_log = logging.getLogger(__name__)
_Reply = TypeVar("_Reply")
_Failure: TypeAlias = tuple[int, str, bytes]
"""Shard; why it did not answer; or its error reply."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RetryConfig:
    """How long a client waits for its table servers."""

    deadline_seconds: float = 60.0
    """A call that is not done by then is a TimeoutError or the last ConnectionError."""

    attempt_seconds: float = 20.0
    """A server that has not answered by then is asked again, over a new connection."""

    connect_seconds: float = 5.0
    """A connection must be made and greeted by then."""

    first_pause_seconds: float = 0.02
    """Pause after the first failure; it doubles with every further one."""

    max_pause_seconds: float = 2.0

    def __post_init__(self) -> None:
        """Reject times that let nothing through."""
        for name in ("deadline_seconds", "attempt_seconds", "connect_seconds", "first_pause_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")


class GivenUp:
    """Servers that did not answer before the deadline of a call: later calls to them fail at once.

    What ends a run asks its servers once more, in many places; each would wait as long as the first. A job that begins
    again has another of these.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._words: dict[str, str] = {}

    def add(self, address: str, words: str) -> None:
        """Give a server up."""
        self._words[address] = words

    def check(self, addresses: Iterable[Address]) -> None:
        """Raise a ConnectionError if one of these was given up."""
        if not self._words:
            return
        for address in addresses:
            if words := self._words.get(str(address)):
                raise ConnectionError(f"{address}: this parameter server was given up: {words}")


class ServerGroup(Closing):
    """The links to the servers of all shards, in their order. Calls of several threads take turns."""

    def __init__(self, links: Sequence[ServerLink], retry: RetryConfig, given_up: GivenUp | None = None) -> None:
        """Take the links; nothing is connected yet."""
        self.links = list(links)
        self.num_retries = 0
        """Attempts after the first, since the start."""
        self._retry, self._given_up = retry, given_up
        self._lock = threading.Lock()
        self._request_ids = itertools.count(1)

    def connect(self) -> None:
        """Connect to all servers; those that are not there yet are waited for, up to the deadline."""
        try:
            self._for_each(range(len(self.links)), lambda shard, deadline: self.links[shard].connection(deadline))
        except BaseException:
            self.close()
            raise

    def carry_out(self, call: native.ShardedCall) -> None:
        """Return when every server has done its part of the call.

        A change has a key, so a server that had carried it out before its reply was lost skips it.
        """
        with self._lock:
            patience = self._patience()
            refusals: dict[int, bytes] = {}
            while failures := self._attempt(call, refusals, patience):
                lost = {shard: words for shard, words, refusal in failures if not refusal}
                refusals |= {shard: refusal for shard, _, refusal in failures if refusal}
                for shard in lost:
                    self.links[shard].drop()
                if not lost:
                    break
                shard, words = next(iter(lost.items()))
                self.num_retries += 1
                patience.pause(f"{self.links[shard].address}: {words}", self.links[shard].address)
            for shard, refusal in sorted(refusals.items()):
                raise_refusal(self.links[shard].address, refusal)

    def ask(self, messages: dict[int, Message]) -> dict[int, Message]:
        """Return the reply of each server to its message; for requests that may be carried out twice."""
        with self._lock:
            return self._for_each(
                messages, lambda shard, deadline: self.links[shard].request(messages[shard], deadline)
            )

    def close(self) -> None:
        """Close all connections."""
        for link in self.links:
            link.close()

    def _attempt(self, call: native.ShardedCall, refused: Container[int], patience: "CallPatience") -> list[_Failure]:
        """Send to the servers that have not answered yet and take their replies; return what failed."""
        failures: list[_Failure] = []
        connections: list[Connection | None] = []
        deadline = patience.attempt()
        for shard, link in enumerate(self.links):
            try:
                connections.append(None if shard in refused else link.connection(deadline))
            except (OSError, CorruptFrameError) as error:
                connections.append(None)
                failures.append((shard, str(error), b""))
        request_id = next(self._request_ids)
        left_ms = max(1, round((deadline.at_seconds - time.monotonic()) * 1000))
        if self.links[0].is_encrypted:
            timed = [None if connection is None else connection.by(deadline) for connection in connections]
            return failures + call.exchange_over(timed, request_id, left_ms)
        sockets = [-1 if connection is None else connection.fileno() for connection in connections]
        return failures + call.exchange(sockets, request_id, left_ms)

    def _for_each(
        self, shards: "Sequence[int] | dict[int, Message] | range", action: Callable[[int, Deadline], _Reply]
    ) -> dict[int, _Reply]:
        done: dict[int, _Reply] = {}
        patience = self._patience()
        for shard in shards:
            while shard not in done:
                deadline = patience.attempt()  # not below: a TimeoutError of its own ends the call
                try:
                    done[shard] = action(shard, deadline)
                except PermissionError:
                    raise  # a wrong secret does not become right
                except (OSError, CorruptFrameError) as error:
                    self.links[shard].drop()
                    self.num_retries += 1
                    patience.pause(str(error), self.links[shard].address)
        return done

    def _patience(self) -> "CallPatience":
        return CallPatience(self._retry, self._given_up, [link.address for link in self.links])


class CallPatience:
    """The time that one call has, and the pauses between its attempts.

    It has none if one of the servers that it asks was given up before.
    """

    def __init__(self, retry: RetryConfig, given_up: GivenUp | None = None, addresses: Iterable[Address] = ()) -> None:
        self._given_up = GivenUp() if given_up is None else given_up
        self._given_up.check(addresses)
        self._silent: Address | None = None
        self._retry = retry
        self._deadline = Deadline.after(retry.deadline_seconds)
        self._pause_seconds = retry.first_pause_seconds
        self._last_words = "it took too long to connect"

    def attempt(self) -> Deadline:
        """Return when the next attempt ends; TimeoutError with the reason of the last failure if there is none."""
        if self._deadline.expired:
            words = f"no answer within {self._retry.deadline_seconds} seconds; last: {self._last_words}"
            if self._silent is not None:
                self._given_up.add(str(self._silent), words)
            raise TimeoutError(words)
        return Deadline.after(self._retry.attempt_seconds).earlier(self._deadline)

    def pause(self, words: str, silent: Address | None) -> None:
        """Wait before the next attempt; a server that was `silent` until the end of the time is given up."""
        self._last_words, self._silent = words, silent
        seconds = min(self._pause_seconds, max(0.0, self._deadline.at_seconds - time.monotonic()))
        _log.warning("a parameter server did not answer, trying again in %.2f seconds: %s", seconds, words)
        time.sleep(seconds)
        self._pause_seconds = min(2 * self._pause_seconds, self._retry.max_pause_seconds)
