"""A server's beginning and end: what it waits for, what it refuses, how it goes."""

import re
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from monolith.cli import serve as serve_command
from monolith.cli.serving import packages
from monolith.delta import DeltaSender, DeltaSettings
from monolith.wire import SharedSecret
from tests.export.movie import eager, export, randomize, request, trained
from tests.patience import PATIENCE_SECONDS
from tests.serving.running_server import running, start, stop, wait_for


def end_of(process):
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, out, err


def test_an_empty_base_is_one_clear_line(tmp_path):
    code, out, err = end_of(start(tmp_path, "--port", "0"))
    assert (code, out) == (2, "")
    assert (
        err == f"monolith: there is no export in {tmp_path}: it has no numbered version folder; export a model to it\n"
    )


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch, tmp_path):
    def fail(name):
        raise ModuleNotFoundError(name, name="fastapi")

    monkeypatch.setattr(packages, "import_module", fail)
    with pytest.raises(ImportError, match=r"needs the package 'fastapi'.* pip install 'monolith-recsys\[serving\]'"):
        serve_command.serve(tmp_path)


def test_a_damaged_export_is_one_clear_line(tmp_path):
    path = export(tmp_path)
    (path / "dense.onnx").write_bytes(b"not what it was")
    code, _, err = end_of(start(tmp_path, "--port", "0"))
    assert code == 2
    assert err.startswith(f"monolith: {path}/dense.onnx is damaged")
    assert err.count("\n") == 1


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """A server with limits of its own, whose newest version is damaged."""
    base = tmp_path_factory.mktemp("limited")
    export(base / "versions", 1, name="movie")
    (export(base / "versions", 2, name="movie", seed=1) / "dense.onnx").write_bytes(b"not what it was")
    options = ("--max_body_bytes", "1000", "--max-batch", "30", "--max-connections", "5", "--request-seconds", "0.5")
    with running(base / "versions", base / "ready.json", *options) as (process, ready):
        yield process, ready


def test_if_the_newest_version_is_damaged_the_one_before_serves(limited):
    process, ready = limited
    assert ready["version"] == 1
    columns = request(20)
    np.testing.assert_allclose(ask(ready["url"], columns), eager(*trained(), columns), rtol=0, atol=1e-6)
    figures = httpx.get(f"{ready['url']}/metrics", timeout=PATIENCE_SECONDS).text
    assert '\nmonolith_damaged_exports{model="movie"} 1.0\n' in figures
    warning = process.stderr.readline()
    assert "version 1 is served in place of a newer one" in warning
    assert "2/dense.onnx is damaged" in warning


def test_limits_come_from_the_command_line(limited):
    _, ready = limited
    answer = httpx.post(f"{ready['url']}/v1/models/movie:predict", content=b" " * 1001, timeout=PATIENCE_SECONDS)
    assert (answer.status_code, "more than 1000 bytes" in answer.text) == (413, True)
    with ExitStack() as cleanup:
        slow = [cleanup.enter_context(socket.create_connection(("127.0.0.1", ready["port"]))) for _ in range(9)]
        answers = [sock.recv(100) for sock in slow[-4:]]
    assert all(text.startswith(b"HTTP/1.1 408") for text in answers)
    assert (
        'monolith_connections_dropped_total{reason="full"}'
        in httpx.get(f"{ready['url']}/metrics", timeout=PATIENCE_SECONDS).text
    )


def test_a_request_has_at_most_max_batch_examples(limited):
    _, ready = limited
    models = f"{ready['url']}/v{{}}/models/movie{{}}"
    for count, status in ((30, 200), (31, 413)):
        columns = {"uid": [7], "mov": [1] * count, "hour": [0.5]}
        tensors = [
            {"name": name, "datatype": "FP32" if name == "hour" else "INT64", "shape": [len(values)], "data": values}
            for name, values in columns.items()
        ]
        for path, body in (((1, ":predict"), {"inputs": columns}), ((2, "/infer"), {"inputs": tensors})):
            answer = httpx.post(models.format(*path), json=body, timeout=PATIENCE_SECONDS)
            assert answer.status_code == status, answer.text
            assert status == 200 or "has 31 examples, 30 at most are taken at a time" in answer.json()["error"]


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
        httpx.Client(base_url=ready["url"], timeout=PATIENCE_SECONDS) as client,
    ):
        assert client.get("/v2/health/ready").status_code == 200
        assert ready["pid"] == process.pid
        begin = time.monotonic()
        code, out, err = stop(process, number)
        assert time.monotonic() - begin < 25  # a request has 30 s to come
        assert (code, err) == (0, "")
        assert out == (
            f"Serving movie_ranking version 1 at {ready['url']}/v2/models/movie_ranking/infer. Ctrl-C ends it.\n"
        )
        assert not (tmp_path / "ready.json").exists()
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{ready['url']}/v2/health/live", timeout=PATIENCE_SECONDS)


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


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to see that signals are handled")
def test_it_can_be_stopped_while_it_waits(tmp_path):
    stale = tmp_path / "ready.json"
    stale.write_text("left by a server that was killed")
    process = start(tmp_path, "--port", "0", "--wait", "--ready-file", str(stale))
    try:
        while stale.exists() or not handles_sigterm(process.pid):
            assert process.poll() is None
            time.sleep(0.02)
        assert stop(process) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def handles_sigterm(pid):
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(caught[1], 16) >> (signal.SIGTERM - 1) & 1)


def ask(url, columns):
    body = {"inputs": {name: values.tolist() for name, values in columns.items()}}
    return httpx.post(f"{url}/v1/models/movie:predict", json=body, timeout=PATIENCE_SECONDS).json()["outputs"]


def test_it_follows_a_trainer(tmp_path):
    """Changed rows, new ids, erased ids and dense weights of the trainer are in the answers after a push."""
    model, plan, tables = trained()
    export(tmp_path / "versions", model=model, plan=plan, tables=tables, name="movie", generation=1)
    columns = {**request(4), "mov": np.array([5, 6, 7000, 8])}
    with (
        running(tmp_path / "versions", tmp_path / "ready.json", "--sync-address", "127.0.0.1:0") as (_, ready),
        DeltaSender(
            tables,
            plan_hash=plan.hash,
            generation=1,
            targets=[ready["sync_address"]],
            settings=DeltaSettings(secret=SharedSecret.of_folder(tmp_path / "versions")),
            dense_weights=lambda: (1, {name: value.clone() for name, value in model.state_dict().items()}),
        ) as sender,
    ):
        before = eager(model, plan, tables, columns)
        np.testing.assert_allclose(ask(ready["url"], columns), before, rtol=0, atol=1e-6)
        randomize(model, torch.Generator().manual_seed(8))
        tables["mov"].assign(torch.tensor([5, 7000]), torch.ones(2, 7))
        tables["mov"].erase(torch.tensor([8]))
        report = sender.push_once()
        assert not report.failures
        after = eager(model, plan, tables, columns)
        assert np.abs(after - before).min() > 1e-3
        np.testing.assert_allclose(ask(ready["url"], columns), after, rtol=0, atol=1e-6)
        figures = httpx.get(f"{ready['url']}/metrics", timeout=PATIENCE_SECONDS).text
        sequences = [line.split()[1] for line in figures.splitlines() if line.startswith("monolith_sequence{")]
        assert [float(one) for one in sequences] == [float(sender.sequence)]


def test_a_secret_that_is_missing_or_open_to_others_is_one_clear_line(tmp_path):
    export(tmp_path)
    secret = tmp_path / "shared.secret"
    secret.chmod(0o644)
    code, _, err = end_of(start(tmp_path, "--port", "0", "--sync-address", "127.0.0.1:0"))
    assert (code, err.count("\n")) == (2, 1)
    assert f"{secret} has mode 0644" in err and f"`chmod 600 {secret}`" in err
    secret.unlink()
    code, _, err = end_of(start(tmp_path, "--port", "0", "--sync-address", "127.0.0.1:0"))
    assert (code, err.count("\n")) == (2, 1)
    assert f"{secret} is missing" in err and "export again" in err
