"""The file of the shared secret: who writes it, who may read it, what an error says."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from monolith.errors import SecretError
from monolith.wire import SharedSecret, make_secret
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_it_is_made_once_for_its_owner_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        (tmp_path / "base").mkdir(mode=0o700)
        (tmp_path / "base").chmod(0o700)
        made = SharedSecret.made_in_folder(tmp_path / "base")
    finally:
        os.umask(before)
    path = tmp_path / "base" / "shared.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == made.key.hex() + "\n"
    assert SharedSecret.made_in_folder(tmp_path / "base") == SharedSecret.of_folder(tmp_path / "base") == made
    assert [entry.name for entry in (tmp_path / "base").iterdir()] == ["shared.secret"]
    assert SharedSecret.made_in_folder(tmp_path / "other" / "base").key != made.key


def test_processes_that_make_it_at_the_same_time_get_the_same(tmp_path):
    program = (
        "import sys; from monolith.wire import SharedSecret; print('up', flush=True); sys.stdin.readline()\n"
        f"print(SharedSecret.made_in_folder({str(tmp_path / 'base')!r}).key.hex())"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout.readline() == "up\n"
    keys = {process.communicate("go\n", timeout=PATIENCE_SECONDS)[0] for process in processes}
    assert len(keys) == 1
    assert len(keys.pop().strip()) == 64


def test_a_file_that_another_made_in_the_last_moment_is_taken(tmp_path, monkeypatch):
    other = SharedSecret.made_in_folder(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "shared.secret").rename(tmp_path / "b" / "shared.secret")
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    assert SharedSecret.made_in_folder(tmp_path / "b").key == other.key
    assert [entry.name for entry in (tmp_path / "b").iterdir()] == ["shared.secret"]


def test_a_missing_file_is_named_with_the_way_out(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(
            SecretError, match=f"{folder}/shared.secret is missing: .* export again, copy .* certificat"
        ):
            SharedSecret.of_folder(folder)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601, 0o610])
def test_a_file_that_others_may_use_is_refused_with_the_way_out(tmp_path, mode):
    SharedSecret.made_in_folder(tmp_path)
    path = tmp_path / "shared.secret"
    path.chmod(mode)
    with pytest.raises(SecretError, match=f"{path} has mode {mode:04o}: .* remove it .* `chmod 600 {path}`"):
        SharedSecret.of_folder(tmp_path)
    with pytest.raises(SecretError, match="mode"):
        SharedSecret.made_in_folder(tmp_path)
    path.chmod(0o600)
    SharedSecret.of_folder(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(tmp_path):
    SharedSecret.made_in_folder(tmp_path)
    os.chown(tmp_path / "shared.secret", 12345, 12345)
    with pytest.raises(SecretError, match="belongs to user 12345, who may have chosen its content"):
        SharedSecret.of_folder(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user that may not read the file")
def test_a_file_that_cannot_be_read_is_named_with_the_way_out(tmp_path):
    SharedSecret.made_in_folder(tmp_path)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.seteuid(12345)
            SharedSecret.of_folder(tmp_path)
        except SecretError as error:
            status = 0 if "cannot be read" in str(error) and "as one user" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    "content", [b"", b"00" * 31 + b"\n", b"00" * 33, b"zz" * 32 + b"\n", b"\xff" * 64, b"1" * 9999]
)
def test_a_file_with_other_content_is_refused_and_not_shown(tmp_path, content):
    path = tmp_path / "shared.secret"
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(SecretError, match="is no shared secret, which is 64 hexadecimal digits") as caught:
        SharedSecret.of_folder(tmp_path)
    assert "zzzz" not in str(caught.value) and "1111" not in str(caught.value)


def test_a_pipe_of_that_name_holds_nobody_up(tmp_path):
    os.mkfifo(tmp_path / "shared.secret", 0o600)
    with pytest.raises(SecretError, match="no plain file"):
        SharedSecret.of_folder(tmp_path)


def test_the_secret_is_in_no_error_and_no_log_line():
    secret = SharedSecret.new("a test")
    assert secret.key.hex() not in repr(secret) and str(secret.key) not in repr(secret)
    with pytest.raises(ValueError, match="has 32 bytes, got 5 from a test") as caught:
        SharedSecret(b"short", "a test")
    assert "short" not in str(caught.value)


def test_where_the_file_system_has_no_links_it_is_made_too(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    made = SharedSecret.made_in_folder(tmp_path)
    assert SharedSecret.made_in_folder(tmp_path).key == made.key
    assert [entry.name for entry in tmp_path.iterdir()] == ["shared.secret"]


def test_who_only_writes_exports_needs_no_file_that_can_be_trusted(tmp_path):
    path = make_secret(tmp_path)
    path.chmod(0o666)
    assert make_secret(tmp_path) == path
