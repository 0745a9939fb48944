"""What a data service is doing, asked of its dispatcher."""

from typing import Any

from monolith.data_service.requests import ServiceRequest, ask
from monolith.wire import Address, Client, SharedSecret, TlsConfig


def service_status(
    dispatcher: str | Address,
    *,
    timeout_seconds: float = 10.0,
    tls: TlsConfig | None = None,
    secret: SharedSecret | None = None,
) -> dict[str, Any]:
    """Return input, rounds with owner, worker and progress of each split, workers, and trainers with their leases.

    Raises:
        ConnectionError: There is no dispatcher at the address.
        TimeoutError: It did not answer in time.
    """
    with Client(dispatcher, tls=tls, secret=secret) as client:
        return dict(client.request(ask(ServiceRequest.STATUS), timeout_seconds).meta)


def end_service(
    dispatcher: str | Address, *, timeout_seconds: float = 10.0, tls: TlsConfig | None = None, secret: SharedSecret
) -> None:
    """Let a dispatcher that belongs to a job end, and its workers; the secret of the job proves the right to ask.

    Raises:
        ConnectionError: There is no dispatcher at the address.
        TimeoutError: It did not answer in time.
    """
    with Client(dispatcher, tls=tls, secret=secret) as client:
        client.request(ask(ServiceRequest.END), timeout_seconds)
