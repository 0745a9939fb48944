"""Certificates for tests, made with the openssl command."""

import shutil
import subprocess
from pathlib import Path

import pytest

from monolith.wire import TlsConfig
from tests.patience import PATIENCE_SECONDS


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=PATIENCE_SECONDS)


def make_authority(folder: Path, name: str) -> None:
    openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
        "-subj", f"/CN={name}", "-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"),
    )  # fmt: skip


def make_certificate(folder: Path, name: str, authority: str) -> TlsConfig:
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text("subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost\n")
    openssl(
        "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
        "-keyout", str(folder / f"{name}.key"), "-out", str(request),
    )  # fmt: skip
    openssl(
        "x509", "-req", "-in", str(request), "-CA", str(folder / f"{authority}.pem"),
        "-CAkey", str(folder / f"{authority}.key"), "-CAcreateserial", "-days", "1", "-extfile", str(extensions),
        "-out", str(folder / f"{name}.pem"),
    )  # fmt: skip
    paths = (str(folder / f"{file}") for file in (f"{name}.pem", f"{name}.key", f"{authority}.pem"))
    cert_path, key_path, ca_path = paths
    return TlsConfig(cert_path=cert_path, key_path=key_path, ca_path=ca_path)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TlsConfig]:
    """Two processes of one authority, and a stranger of another."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is needed to make certificates, and is not there")
    folder = tmp_path_factory.mktemp("certificates")
    for authority in ("ours", "theirs"):
        make_authority(folder, authority)
    return {
        "server": make_certificate(folder, "server", "ours"),
        "client": make_certificate(folder, "client", "ours"),
        "stranger": make_certificate(folder, "stranger", "theirs"),
    }
