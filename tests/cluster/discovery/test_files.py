"""A folder of registrations: who is in it, who died, who may write."""

import functools
import json
import logging
import os
import signal
import subprocess
import sys

import pytest

from monolith.cluster.discovery import FilesServiceDiscovery, this_process
from monolith.cluster.discovery.this_process import ProcessMark
from tests.cluster.discovery.discovery_checks import CHECKS

REGISTER = """
import sys
from monolith.cluster.discovery import FilesServiceDiscovery
FilesServiceDiscovery(sys.argv[1]).register("ps", 0, sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_process(tmp_path):
    """A living process that is registered as ps 0 at 10.0.0.1:7001."""
    arguments = [sys.executable, "-c", REGISTER, str(tmp_path), "10.0.0.1:7001"]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def rewrite(file, **changes):
    """Change what a registration says about its process."""
    value = json.loads(file.read_text())
    value["process"].update(changes)
    file.write_text(json.dumps(value))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(check, tmp_path):
    check(functools.partial(FilesServiceDiscovery, tmp_path))


def test_a_name_that_a_living_process_has_is_taken_until_it_dies(other_process, tmp_path):
    with FilesServiceDiscovery(tmp_path) as discovery:
        assert discovery.query("ps") == {0: "10.0.0.1:7001"}
        with pytest.raises(ValueError, match=f"ps 0 is taken: process {other_process.pid} .*10.0.0.1:7001.*ps.0"):
            discovery.register("ps", 0, "10.0.0.2:7001")
        assert discovery.query("ps") == {0: "10.0.0.1:7001"}
        # Its exit status is not asked for yet: a process that only waits for that runs nothing more.
        os.kill(other_process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, other_process.pid, os.WEXITED | os.WNOWAIT)
        assert discovery.query("ps") == {}
        other_process.wait()
        assert discovery.query("ps") == {}
        discovery.register("ps", 0, "10.0.0.2:7001")
        assert discovery.query("ps") == {0: "10.0.0.2:7001"}


@pytest.mark.parametrize(
    ("changes", "alive"),
    [
        ({}, True),
        ({"started": "1"}, False),
        ({"boot": "an earlier one"}, False),
        ({"namespace": "pid:[1]", "pid": 2**22 + 1}, True),
        ({"host": "elsewhere", "pid": 2**22 + 1}, True),
        ({"pid": 2**22 + 1}, False),
    ],
    ids=["itself", "number used again", "rebooted", "another container", "another host", "gone"],
)
def test_what_is_known_about_the_process_of_a_registration(tmp_path, changes, alive):
    with FilesServiceDiscovery(tmp_path) as discovery:
        discovery.register("ps", 0, "10.0.0.1:7001")
        rewrite(tmp_path / "ps.0", **changes)
        assert discovery.query("ps") == ({0: "10.0.0.1:7001"} if alive else {})


@pytest.mark.parametrize("unread", ["stat", "boot_id", "stat and boot_id"])
@pytest.mark.parametrize("reads_at_first", [True, False], ids=["later", "at first"])
def test_a_process_about_which_nothing_can_be_read_for_a_moment_is_alive(tmp_path, monkeypatch, unread, reads_at_first):
    read = this_process._read

    def cannot_read(path):
        """Do as `_read` does when this process may open no more files."""
        return "" if path.name in unread.split() else read(path)

    with FilesServiceDiscovery(tmp_path) as discovery:
        with monkeypatch.context() as patch:
            if not reads_at_first:
                patch.setattr(this_process, "_read", cannot_read)
            discovery.register("ps", 0, "10.0.0.1:7001")
        if reads_at_first:
            monkeypatch.setattr(this_process, "_read", cannot_read)
        assert discovery.query("ps") == {0: "10.0.0.1:7001"}
        rewrite(tmp_path / "ps.0", pid=2**22 + 1)
        assert discovery.query("ps") == {}, "that this process is gone is certain"


def test_a_registration_of_another_host_is_replaced_with_a_warning(tmp_path, caplog):
    with FilesServiceDiscovery(tmp_path) as discovery, caplog.at_level(logging.WARNING):
        discovery.register("ps", 0, "10.0.0.1:7001")
        rewrite(tmp_path / "ps.0", host="elsewhere")
        discovery.register("ps", 0, "10.0.0.2:7001")
        assert discovery.query("ps") == {0: "10.0.0.2:7001"}
    assert "ps 0 moves from 10.0.0.1:7001 to 10.0.0.2:7001" in caplog.text


def test_closing_leaves_a_later_registration_alone(tmp_path):
    first, second = FilesServiceDiscovery(tmp_path), FilesServiceDiscovery(tmp_path)
    first.register("ps", 0, "10.0.0.1:7001")
    second.register("ps", 0, "10.0.0.2:7001")
    first.close()
    assert second.query("ps") == {0: "10.0.0.2:7001"}


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff", b'{"address": "10.0.0.1:7001"}', b'{"address": "x"}', b"1" * 5000]
)
def test_a_file_that_is_no_registration_is_ignored_and_replaced(tmp_path, content, caplog):
    (tmp_path / "ps.0").write_bytes(content)
    for stranger in ("ps.00", "ps.x", "ps", "other"):
        (tmp_path / stranger).write_text("{}")
    with FilesServiceDiscovery(tmp_path) as discovery:
        assert discovery.query("ps") == {}
        assert "ps.0 is no registration, ignored" in caplog.text
        discovery.register("ps", 0, "10.0.0.1:7001")
        assert discovery.query("ps") == {0: "10.0.0.1:7001"}


@pytest.mark.parametrize(
    ("name", "index", "addr", "message"),
    [
        ("p/s", 0, "10.0.0.1:7001", "letters, digits"),
        ("", 0, "10.0.0.1:7001", "letters, digits"),
        ("ps", -1, "10.0.0.1:7001", "from 0, got -1"),
        ("ps", "0", "10.0.0.1:7001", "from 0, got '0'"),
        ("ps", 0, "10.0.0.1", "Invalid addr: '10.0.0.1'"),
        ("ps", 0, "fd00::1:7001", "Invalid addr"),
        ("ps", 0, "10.0.0.1:0", "port 0"),
    ],
)
def test_what_cannot_be_registered(tmp_path, name, index, addr, message):
    with FilesServiceDiscovery(tmp_path) as discovery, pytest.raises(ValueError, match=message):
        discovery.register(name, index, addr)
    assert not [file for file in tmp_path.iterdir() if file.name != ".lock"]


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="discovery needs a folder that it can write to, got .*file/folder"):
        FilesServiceDiscovery(tmp_path / "file" / "folder")


def test_the_mark_of_this_process_is_read_back():
    mark = ProcessMark.here()
    assert ProcessMark.from_json(json.loads(json.dumps(mark.as_json()))) == mark
    assert not mark.is_certainly_dead()
