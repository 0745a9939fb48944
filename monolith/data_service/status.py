"""What a data service is doing, asked of its dispatcher."""

from typing import Any

from monolith.data_service.requests import ServiceRequest, ask
from monolith.wire import Address, Client, TlsConfig


def service_status(
    dispatcher: str | Address, *, timeout_seconds: float = 10.0, tls: TlsConfig | None = None
) -> dict[str, Any]:
    """Return input, rounds with owner, worker and progress of each split, workers, and trainers with their leases.

    Raises:
        ConnectionError: There is no dispatcher at the address.
        TimeoutError: It did not answer in time.
    """
    with Client(dispatcher, tls=tls) as client:
        return dict(client.request(ask(ServiceRequest.STATUS), timeout_seconds).meta)
