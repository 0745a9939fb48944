"""One connection per parameter server for messages that Python answers, asked at the same time."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from monolith.closing import Closing
from monolith.errors import CorruptFrameError, FencedError
from monolith.parallel.batch_key import CallNumbers
from monolith.parallel.dense.requests import REFUSED
from monolith.parallel.messages import Welcome
from monolith.parallel.server_group import CallPatience, GivenUp, RetryConfig
from monolith.wire import Address, Client, Message, SharedSecret, TlsConfig

_MAX_THREADS = 32


class ControlClients(Closing):
    """Clients of all parameter servers, in the order of their shards. A lost request is sent again until its deadline.

    So every request must be one that may be carried out twice, or carry a key by which the server knows it again.
    """

    def __init__(
        self,
        addresses: Sequence[str | Address],
        *,
        secret: SharedSecret | None = None,
        tls: TlsConfig | None = None,
        retry: RetryConfig | None = None,
        given_up: GivenUp | None = None,
    ) -> None:
        """Remember where the servers are; nothing is connected yet."""
        if not addresses:
            raise ValueError("there must be the address of at least one parameter server")
        self.calls = CallNumbers()
        """Keys for changes that belong to no stream."""
        self._retry, self._given_up = retry or RetryConfig(), given_up
        self._cleanup = ExitStack()
        self._clients = [
            self._cleanup.enter_context(
                Client(address, secret=secret, tls=tls, connect_timeout_seconds=self._retry.connect_seconds)
            )
            for address in addresses
        ]
        self._threads: ThreadPoolExecutor | None = None

    @property
    def addresses(self) -> list[Address]:
        """Where the servers are."""
        return [client.address for client in self._clients]

    def ask_one(self, shard: int, message: Message) -> Message:
        """Return the reply of one server.

        Raises:
            RemoteError: the server answered with an error.
            FencedError: the server is of another generation of the job.
            PermissionError: it does not know this job's secret.
            TimeoutError: there was no reply before the deadline; the words have the last reason.
            ConnectionError: the server was given up before.
        """
        address = self._clients[shard].address
        patience = CallPatience(self._retry, self._given_up, [address])
        while True:
            deadline = patience.attempt()
            try:
                return _taken(self._clients[shard].request(message, deadline.remaining_seconds()), address)
            except PermissionError:
                raise  # a wrong secret does not become right
            except (OSError, CorruptFrameError) as error:
                patience.pause(str(error), address)

    def ask(self, messages: Mapping[int, Message]) -> dict[int, Message]:
        """Return the reply of every server that has a message; the first error if one fails, after all have ended."""
        if len(messages) == 1:
            return {shard: self.ask_one(shard, message) for shard, message in messages.items()}
        if self._threads is None:
            self._threads = ThreadPoolExecutor(min(len(self._clients), _MAX_THREADS), "dense")
            self._cleanup.enter_context(self._threads)
        futures = {shard: self._threads.submit(self.ask_one, shard, one) for shard, one in messages.items()}
        errors = [error for future in futures.values() if (error := future.exception()) is not None]
        if errors:
            raise errors[0]
        return {shard: future.result() for shard, future in futures.items()}

    def close(self) -> None:
        """Close all connections."""
        self._cleanup.close()


def _taken(reply: Message, address: Address) -> Message:
    """Return a reply, or raise why the server gave none: a ConnectionError if it will later."""
    refused, words = reply.meta.get(REFUSED), f"{address}: {reply.meta.get('detail')}"
    if refused is None:
        return reply
    raise (FencedError if refused == Welcome.GENERATION else ConnectionError)(words)
