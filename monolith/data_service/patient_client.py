"""PatientClient: requests that outlive a restart of the other side."""

import threading

from monolith.wire import Address, Client, Deadline, Message, SharedSecret, TlsConfig

_PAUSE_SECONDS = 0.1
_ATTEMPT_SECONDS = 10.0


class StoppedError(Exception):
    """The caller was stopped while it waited for the answer."""


class PatientClient:
    """A client that asks again while the server cannot be reached; only for requests that may be repeated."""

    def __init__(
        self,
        address: str | Address,
        what: str,
        *,
        patience_seconds: float,
        tls: TlsConfig | None = None,
        secret: SharedSecret | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Remember where the server is and what it is; nothing is connected yet.

        Args:
            address: Where the server listens.
            what: What it is, for error messages: "dispatcher".
            patience_seconds: How long to go on trying.
            tls: As of `Client`.
            secret: As of `Client`.
            stop: When set, waiting ends with a `StoppedError`.
        """
        self.address = Address.parse(address)
        self.patience_seconds = patience_seconds
        self._what = what
        self._client = Client(self.address, tls=tls, secret=secret)
        self._stop = threading.Event() if stop is None else stop

    def request(self, message: Message) -> Message:
        """Return the reply.

        Raises:
            RemoteError: The server answered with an error.
            TimeoutError: It could not be reached within the patience; the message has its address.
            StoppedError: Told to stop meanwhile.
        """
        deadline = Deadline.after(self.patience_seconds)
        while True:
            try:
                reply = self._client.request(message, _ATTEMPT_SECONDS)
                if not reply.meta.get("ending"):
                    return reply
                raise ConnectionError(f"{self.address}: it is ending")
            except (ConnectionError, TimeoutError) as error:
                if deadline.expired:
                    raise TimeoutError(
                        f"the {self._what} at {self.address} could not be reached for {self.patience_seconds:g} "
                        f"seconds ({error}); see that it runs and that the address is right"
                    ) from error
                if self._stop.wait(_PAUSE_SECONDS):
                    raise StoppedError from error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
