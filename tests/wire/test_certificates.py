"""Folders of certificates: what is in them connects, and nothing else does."""

import shutil
import ssl
import stat

import pytest
from typer.testing import CliRunner

from monolith.cli.app import app
from monolith.wire import Message, connect, listen
from monolith.wire.certificates import certificates_of, new_certificates
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by the openssl command")


def test_processes_with_the_folder_connect_and_others_do_not(tmp_path):
    ours = new_certificates(tmp_path / "ours")
    assert CliRunner().invoke(app, ["certs", "new", str(tmp_path / "theirs")]).exit_code == 0
    with listen("127.0.0.1:0", lambda message: message, tls=ours) as server:
        with connect(server.address, tls=certificates_of(tmp_path / "ours")) as client:
            assert client.request(Message(type=3), PATIENCE_SECONDS).type == 3
        with pytest.raises((ssl.SSLError, ConnectionError)):
            connect(server.address, tls=certificates_of(tmp_path / "theirs"))


def test_keys_are_the_owners_alone_and_the_authority_has_none(tmp_path):
    new_certificates(tmp_path / "job", hosts=["ps-0.example", "10.0.0.7"], days=2)
    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "job").iterdir()}
    assert found == {"authority.pem": 0o600, "node.pem": 0o600, "node.key": 0o600}


@pytest.mark.parametrize("host", ["", "a b", "a,DNS:evil", "a\nb", "x" * 254])
def test_names_that_are_no_hosts_are_refused(tmp_path, host):
    with pytest.raises(ValueError, match="neither a host name nor an IP address"):
        new_certificates(tmp_path / "job", hosts=[host])


def test_a_folder_with_files_is_left_alone(tmp_path):
    (tmp_path / "node.key").write_text("precious")
    with pytest.raises(FileExistsError, match="has files in it"):
        new_certificates(tmp_path)
    assert (tmp_path / "node.key").read_text() == "precious"
