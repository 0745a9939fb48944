"""The TLS options that several commands have."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from monolith.wire import TlsConfig

TlsCert = Annotated[Path | None, typer.Option("--tls-cert", help="Certificate of this process (PEM).")]
TlsKey = Annotated[Path | None, typer.Option("--tls-key", help="Its private key (PEM).")]
TlsCa = Annotated[Path | None, typer.Option("--tls-ca", help="Authority that the others' certificates must have.")]


def tls_config(cert: Path | None, key: Path | None, ca: Path | None) -> "TlsConfig | None":
    """Return what `--tls-cert`, `--tls-key` and `--tls-ca` say together; None without them."""
    if cert is None and key is None and ca is None:
        return None
    if cert is None or key is None or ca is None:
        raise ValueError("TLS needs all three of --tls-cert, --tls-key and --tls-ca")
    config: TlsConfig = import_module("monolith.wire").TlsConfig(
        cert_path=str(cert), key_path=str(key), ca_path=str(ca)
    )
    return config
