"""A server's beginning and end: what it waits for, what it refuses, how it goes."""

import json
import signal
import socket
import time

import httpx
import numpy as np
import pytest
import torch

from monolith.parallel.sync_sender import SyncSender
from tests.export.movie import export, request, trained
from tests.serving.running_server import running, start, stop, wait_for


def end_of(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_an_empty_base_is_one_clear_line(tmp_path):
    code, out, err = end_of(start(tmp_path, "--port", "0"))
    assert (code, out) == (2, "")
    assert err == f"monolith: there is no export in {tmp_path}: it has no numbered version folder; export a model to it\n"


def test_a_damaged_export_is_one_clear_line(tmp_path):
    path = export(tmp_path)
    (path / "dense.onnx").write_bytes(b"not what it was")
    code, _, err = end_of(start(tmp_path, "--port", "0"))
    assert code == 2
    assert err.startswith(f"monolith: {path}/dense.onnx is damaged")
    assert err.count("\n") == 1


def test_a_port_in_use_is_one_clear_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = end_of(start(tmp_path, "--port", str(port)))
    assert code == 2
    assert err == f"monolith: port {port} on 127.0.0.1 is in use; choose another with --port (0 picks a free one)\n"


def test_a_sync_address_in_use_is_one_clear_line(tmp_path):
    export(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, err = end_of(start(tmp_path, "--port", "0", "--sync-address", address))
    assert code == 2
    assert address in err
    assert "in use" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path, number):
    export(tmp_path / "versions")
    with (
        running(tmp_path / "versions", tmp_path / "ready.json") as (process, ready),
        # An idle connection must not hold it up.
        httpx.Client(base_url=ready["url"]) as client,
    ):
        assert client.get("/v2/health/ready").status_code == 200
        assert ready["pid"] == process.pid
        begin = time.monotonic()
        code, out, err = stop(process, number)
        assert time.monotonic() - begin < 10
        assert (code, err) == (0, "")
        assert out == (
            f"Serving movie_ranking version 1 at {ready['url']}/v2/models/movie_ranking/infer. Ctrl-C ends it.\n"
        )
        assert not (tmp_path / "ready.json").exists()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{ready['url']}/v2/health/live")


def test_it_waits_for_the_first_version_if_asked(tmp_path):
    base, ready_file = tmp_path / "versions", tmp_path / "ready.json"
    process = start(base, "--port", "0", "--ready-file", str(ready_file), "--wait")
    try:
        # Half-written versions do not count.
        (base / "1.tmp").mkdir(parents=True)
        (base / "2").mkdir()
        export(base, 3)
        assert wait_for(ready_file, process)["version"] == 3
        assert stop(process)[0] == 0
    finally:
        process.kill()
        process.communicate()


def test_it_can_be_stopped_while_it_waits(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = start(tmp_path, "--port", str(port), "--wait")
    try:
        # Bound already, so the signals are taken care of; not listening yet.
        while bindable(port):
            assert process.poll() is None
            time.sleep(0.02)
        assert stop(process) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def bindable(port):
    with socket.socket() as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
