"""A real server, the data service, and files."""

import contextlib
import inspect
import os
import re
import shutil
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from monolith.checkpoint import load_snapshot
from monolith.checkpoint.torch_import.state_dict import read_state_dict
from monolith.cli.serve import serve as serve_command
from monolith.data_service import DataWorker, DataWorkerConfig, Dispatcher, DispatcherConfig
from monolith.data_service.requests import ServiceRequest, ask
from monolith.errors import CorruptFileError, SecretError
from monolith.export import load_export
from monolith.wire import Message, SharedSecret, connect
from tests.checkpoint.made_snapshots import PLAN as SNAPSHOT_PLAN
from tests.checkpoint.made_snapshots import make_rows, save
from tests.data_service.numbered_input import INPUT
from tests.export.movie import export
from tests.patience import PATIENCE_SECONDS
from tests.security.attempts import hangs_up
from tests.security.page import line
from tests.serving.running_server import running


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """`monolith serve` with a delta port, and the folder of its exports."""
    folder = tmp_path_factory.mktemp("served")
    export(folder / "versions", name="movie")
    with running(folder / "versions", folder / "ready.json", "--sync-address", "127.0.0.1:0") as (_, ready):
        yield folder / "versions", ready


@line("a process of the same user reads the secret", "is let in")
def test_the_same_user_is_let_in(server):
    base, ready = server
    message = Message(type=32)  # of another plan, which a receiver says to those alone whom it has let in
    with pytest.raises(SecretError), connect(ready["sync_address"]) as stranger:
        stranger.request(message, PATIENCE_SECONDS)
    with connect(ready["sync_address"], 30, secret=SharedSecret.of_folder(base)) as user:
        assert user.request(message, PATIENCE_SECONDS).meta["status"] == "plan"


@line(
    "anybody who reaches the port asks for predictions, or for `/metrics`",
    "is answered, unless there is `--token-file` or `--https-client-ca`",
)
def test_http_answers_everybody(server):
    _, ready = server
    body = {"inputs": {"uid": [1], "mov": [2], "hour": [0.5]}}
    assert httpx.post(f"{ready['url']}/v1/models/movie:predict", json=body, timeout=PATIENCE_SECONDS).status_code == 200
    assert httpx.get(f"{ready['url']}/metrics", timeout=PATIENCE_SECONDS).status_code == 200


@line("anybody changes the model over HTTP", "is refused, unless the server was started with `--allow-control`")
def test_http_changes_nothing(server):
    _, ready = server
    places = ["/", "/v2", "/v2/models/movie", "/v2/models/movie/versions/1", "/v1/models/movie", "/metrics"]
    with httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client:
        for place in places:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                assert client.request(method, place).status_code in (404, 405), (method, place)
        for verb in ("load", "unload"):
            assert client.post(f"/v2/repository/models/movie/{verb}").status_code == 403
        assert client.post("/v2/repository/index").json()[0]["state"] == "READY"
        assert client.get("/v2/health/ready").status_code == 200


def serve_default(name: str) -> Any:
    pytest.importorskip("monolith.serving.connections", reason="the limits of HTTP are not there yet")
    return inspect.signature(serve_command).parameters[name].default


@line("a body of more than 4 MiB (`--max-body-bytes`)", "answered with 413")
def test_large_bodies_are_refused(server):
    _, ready = server
    assert serve_default("max_body_bytes") == 4 << 20
    url = f"{ready['url']}/v1/models/movie:predict"
    assert httpx.post(url, content=b" " * (4 << 20), timeout=PATIENCE_SECONDS).status_code == 400
    assert httpx.post(url, content=b" " * (4 << 20 | 1), timeout=PATIENCE_SECONDS).status_code == 413


@line(
    "a request that is begun and never finished",
    "the connection ends after 30 s (`--request-seconds`); others do not wait",
)
@line(
    "more connections than 512 (`--max-connections`)", "those that never sent a whole request lose their places first"
)
def test_slow_clients_lock_nobody_out(server):
    _, ready = server
    assert (serve_default("request_seconds"), serve_default("max_connections")) == (30, 512)
    with contextlib.ExitStack() as cleanup, httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as known:
        assert known.get("/v2/health/ready").status_code == 200
        slow = [cleanup.enter_context(socket.create_connection((ready["host"], ready["port"]))) for _ in range(600)]
        for sock in slow:
            with contextlib.suppress(OSError):  # its place may be lost already
                sock.sendall(b"POST /v1/models/movie:predict HTTP/1.1\r\n")
        assert known.get("/v2/health/ready").status_code == 200
        assert httpx.get(f"{ready['url']}/v2/health/ready", timeout=PATIENCE_SECONDS).status_code == 200
        slow[0].settimeout(PATIENCE_SECONDS)
        assert hangs_up(slow[0])


def dispatcher_settings(folder: Path, **changes: Any) -> DispatcherConfig:
    fields = {"input": INPUT, "num_splits": 2, "state_path": str(folder), "address": "127.0.0.1:0", **changes}
    return DispatcherConfig(**fields)


def take_a_split(address: str, **options: Any) -> Any:
    with connect(address, **options) as stranger:
        who = {"trainer": "stranger", "life": "1"}
        stranger.request(
            ask(ServiceRequest.JOIN, **who, holding={"round": 0, "splits": {}, "done": []}), PATIENCE_SECONDS
        )
        fields = {**who, "round": 0, "known": [], "parts": [], "wait_seconds": 0}
        return stranger.request(ask(ServiceRequest.TAKE, **fields), PATIENCE_SECONDS).meta


@line("a stranger joins as a trainer, without certificates", "gets splits; the trainers of the job miss these records")
def test_the_data_service_trusts_this_machine(tmp_path):
    with Dispatcher(dispatcher_settings(tmp_path)) as dispatcher:
        assert take_a_split(dispatcher.address)["what"] == "split"


@line("a stranger joins, where there are certificates", "refused")
def test_the_data_service_with_certificates(tmp_path, certificates):
    with Dispatcher(dispatcher_settings(tmp_path, tls=certificates["server"])) as dispatcher:
        stranger = replace(certificates["stranger"], ca_path=certificates["client"].ca_path)
        for tls in (None, stranger):
            with pytest.raises((ConnectionError, ValueError)):
                take_a_split(dispatcher.address, tls=tls)
        assert take_a_split(dispatcher.address, tls=certificates["client"])["what"] == "split"


@line(
    "a stranger poses as the dispatcher and names other code to import",
    "a worker with `--input` refuses; one without imports it",
)
def test_workers_import_what_the_dispatcher_names(tmp_path, monkeypatch):
    other = "tests.security.named_by_a_stranger:make_source"
    monkeypatch.delitem(sys.modules, "tests.security.named_by_a_stranger", raising=False)
    with Dispatcher(dispatcher_settings(tmp_path, input=other)) as impostor:
        with pytest.raises(ValueError, match="named_by_a_stranger"):
            DataWorker(DataWorkerConfig(dispatcher=impostor.address, input=INPUT))
        assert "tests.security.named_by_a_stranger" not in sys.modules
        with DataWorker(DataWorkerConfig(dispatcher=impostor.address)):
            assert "tests.security.named_by_a_stranger" in sys.modules


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@line("a file of an export is damaged", "the version is refused, and the file named")
def test_damaged_exports_are_refused(tmp_path):
    whole = export(tmp_path / "whole")
    load_export(whole)
    for name in sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file()):
        folder = tmp_path / name.name
        shutil.copytree(whole, folder)
        damage(folder / name)
        with pytest.raises(CorruptFileError, match=re.escape(str(name))):
            load_export(folder)


@line("a file of a snapshot is damaged", "the snapshot is refused, and the file named")
def test_damaged_snapshots_are_refused(tmp_path):
    saved = save(tmp_path / "model", 1)
    for name in sorted(path.relative_to(saved) for path in saved.rglob("*") if path.is_file()):
        folder = save(tmp_path / "model" / name.name, 1)
        damage(folder / name)
        with pytest.raises(CorruptFileError, match=re.escape(name.name)):
            load_snapshot(folder, plan=SNAPSHOT_PLAN, tables=make_rows({}, {}))


class RunsCode:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@line("a PyTorch file that runs code when it is loaded, given to `monolith ckpt import-torch`", "refused; nothing runs")
def test_pytorch_files_run_nothing(tmp_path):
    torch.save({"weight": RunsCode(tmp_path / "ran")}, tmp_path / "crafted.pt")
    with pytest.raises(CorruptFileError, match="nothing else is read"):
        read_state_dict(tmp_path / "crafted.pt")
    assert not (tmp_path / "ran").exists()
