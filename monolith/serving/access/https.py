"""TLS of an HTTP server: its certificate, the authority of its clients, and files that may change while it runs."""

import logging
import os
import ssl
import time
from dataclasses import dataclass
from typing import Final

RELOAD_SECONDS: Final = 1.0
"""How often to look, at most, whether the files have changed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpsConfig:
    """The certificate that a server shows, and whose clients it lets in."""

    cert_path: str
    """PEM file with the certificate, and what leads from it to its authority."""

    key_path: str
    """PEM file with its private key."""

    client_ca_path: str | None = None
    """PEM file with the authorities of clients; those without a certificate of theirs are refused. None asks clients
    for no certificate."""

    def context(self) -> ssl.SSLContext:
        """Return what connections need: TLS 1.2 or newer; a ValueError names the files that do not fit."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self.cert_path, self.key_path)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(
                f"HTTPS: certificate {self.cert_path} and key {self.key_path} cannot be used: {error}; both must be "
                "readable PEM files that belong together"
            ) from error
        if self.client_ca_path is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self.client_ca_path)
            except (OSError, ssl.SSLError) as error:
                raise ValueError(
                    f"HTTPS: the authority of clients {self.client_ca_path} cannot be used: {error}; it must be a "
                    "readable PEM file"
                ) from error
        return context

    def paths(self) -> list[str]:
        """Return the files."""
        return [path for path in (self.cert_path, self.key_path, self.client_ca_path) if path is not None]


class Certificates:
    """What the next connection is encrypted with; a renewed certificate is taken while the server runs."""

    def __init__(self, config: HttpsConfig, *, reload_seconds: float = RELOAD_SECONDS) -> None:
        """Read the files; a ValueError says which cannot be used."""
        self._config = config
        self._reload_seconds = reload_seconds
        self._stamps = self._stamps_now()
        self._context = config.context()
        self._looked = time.monotonic()

    def context(self) -> ssl.SSLContext:
        """Return what the next connection needs. New files that cannot be used are logged, and the old ones stay."""
        now = time.monotonic()
        if now - self._looked >= self._reload_seconds:
            self._looked = now
            stamps = self._stamps_now()
            if stamps != self._stamps:
                # A certificate that is written before its key does not fit until the key has come too.
                self._stamps = stamps
                try:
                    self._context = self._config.context()
                    _log.info("a renewed certificate is in use: %s", self._config.cert_path)
                except ValueError as error:
                    _log.warning("the certificate in use stays: %s", error)
        return self._context

    def _stamps_now(self) -> list[tuple[int, int, int] | None]:
        found: list[tuple[int, int, int] | None] = []
        for path in self._config.paths():
            try:
                one = os.stat(path)
            except OSError:
                found.append(None)
            else:
                found.append((one.st_ino, one.st_mtime_ns, one.st_size))
        return found
