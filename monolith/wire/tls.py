"""Encryption of connections: both sides show a certificate, both check it, TLS 1.3 and nothing older."""

import ssl
from dataclasses import dataclass

from monolith.wire.address import Address


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsConfig:
    """This process's certificate, and the authority that must have signed the other side's."""

    cert_path: str
    """PEM file with the certificate (and what leads from it to the authority)."""

    key_path: str
    """PEM file with its private key."""

    ca_path: str
    """PEM file with the authorities that certificates of others are checked against."""

    server_name: str | None = None
    """The name a server's certificate must bear; None takes the host of its address, "localhost" for Unix sockets."""

    def server_context(self) -> ssl.SSLContext:
        """Return what a listening socket needs; clients without a certificate of the authority are refused."""
        context = self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return what a connecting socket needs; the server's certificate and its name are checked."""
        return self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def name_of(self, address: Address) -> str:
        """Return the name that the certificate of the server at the address must bear."""
        return self.server_name or ("localhost" if address.path is not None else address.host)

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(self.cert_path, self.key_path)
            context.load_verify_locations(self.ca_path)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(
                f"TLS: certificate {self.cert_path}, key {self.key_path} and authority {self.ca_path} cannot be used: "
                f"{error}; all three must be readable PEM files that belong together"
            ) from error
        return context
