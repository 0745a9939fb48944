"""Certificates for the processes of a job, made with the `openssl` command.

One authority signs one certificate that all processes of the job share. It names the hosts at which they listen.
"""

import ipaddress
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from monolith.wire.tls import TlsConfig

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

_AUTHORITY, _NODE = "authority", "node"
_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9*.-]{1,253}")


def new_certificates(
    folder: str | os.PathLike[str], *, hosts: Sequence[str] = LOCAL_HOSTS, days: int = 365
) -> TlsConfig:
    """Make a folder of certificates for mutual TLS between processes at these hosts (names or IP addresses).

    Every process of the job reads `authority.pem`, `node.pem` and `node.key`. The authority's own key is thrown away:
    nobody can add a certificate later, and for other hosts a new folder is made.
    """
    target = Path(folder)
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"{target} has files in it; name a folder that is new or empty")
    if not hosts or days <= 0:
        raise ValueError(f"certificates are for one host or more and one day or more, got {list(hosts)} and {days}")
    names = ",".join(_subject_name(host) for host in hosts)
    if shutil.which("openssl") is None:
        raise FileNotFoundError("certificates are made by the openssl command, which is not installed here")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        keys = {one: work / f"{one}.key" for one in (_AUTHORITY, _NODE)}
        certificates = {one: work / f"{one}.pem" for one in (_AUTHORITY, _NODE)}
        _openssl(
            "req", "-x509", *_KEY, "-days", str(days), "-subj", "/CN=monolith authority",
            "-keyout", keys[_AUTHORITY], "-out", certificates[_AUTHORITY],
        )  # fmt: skip
        _openssl(
            "req", *_KEY, "-subj", "/CN=monolith", "-keyout", keys[_NODE], "-out", work / "request",
        )  # fmt: skip
        (work / "names").write_text(f"subjectAltName={names}\n")
        _openssl(
            "x509", "-req", "-in", work / "request", "-CA", certificates[_AUTHORITY], "-CAkey", keys[_AUTHORITY],
            "-CAcreateserial", "-days", str(days), "-extfile", work / "names", "-out", certificates[_NODE],
        )  # fmt: skip
        for made in (*certificates.values(), keys[_NODE]):
            _write(target / made.name, made.read_bytes())
    return certificates_of(target)


def certificates_of(folder: str | os.PathLike[str]) -> TlsConfig:
    """Return the settings of a process that uses a folder made by `new_certificates`."""
    path = Path(folder)
    return TlsConfig(
        cert_path=str(path / f"{_NODE}.pem"),
        key_path=str(path / f"{_NODE}.key"),
        ca_path=str(path / f"{_AUTHORITY}.pem"),
    )


def _subject_name(host: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        pass
    # Nothing that could add a line or a field to what openssl reads.
    if not _HOST_NAME.fullmatch(host):
        raise ValueError(f"{host!r} is neither a host name nor an IP address")
    return f"DNS:{host}"


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IRUSR | stat.S_IWUSR)
    with open(descriptor, "wb") as file:
        file.write(content)
