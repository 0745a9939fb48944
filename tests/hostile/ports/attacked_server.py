"""A server process under attack, and what it must hold and answer whatever strangers do."""

import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from monolith.errors import CorruptFrameError, RemoteError
from monolith.wire import Address, Message, SharedSecret, TlsConfig, connect
from tests.export.movie import eager, export, trained
from tests.hostile.report import Report
from tests.patience import PATIENCE_SECONDS
from tests.serving.requests import PREDICT
from tests.serving.running_server import ROOT, running

LIVENESS_SECONDS = 0.5
"""An answer to /v2/health/live that takes longer is a finding."""

NEW_IDS = range(1000, 1010)
"""Ids that the export has no rows for."""


class AttackedServer:
    """A server of the movie model, and a copy of the model and its tables that says what it must answer."""

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, Any], base: Path, log: Path) -> None:
        """Take over a server that was just started."""
        self.process, self.base, self.log = process, base, log
        self.port: int = ready["port"]
        self.delta_address = Address.parse(ready["sync_address"])
        self.model, self.plan, self.tables = trained()
        self.generation, self.sequence = 1, 0
        ids = np.array([*range(200), *NEW_IDS])
        hours = np.linspace(0, 1, len(ids), dtype=np.float32)
        self.columns = {"uid": ids, "mov": ids[::-1].copy(), "hour": hours}
        self._body = json.dumps({"inputs": {name: values.tolist() for name, values in self.columns.items()}})
        self.note_changes()

    @property
    def secret(self) -> SharedSecret:
        """What trainers know."""
        return SharedSecret.of_folder(self.base)

    def note_changes(self) -> None:
        """Compute anew what the server must answer, after the copy was changed."""
        self.expected = eager(self.model, self.plan, self.tables, self.columns)

    def apply(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Change the copy as a delta with these arrays must change the server."""
        for part in ("erased", "ids"):
            for name in [name for name in arrays if name.startswith(f"{part}/")]:
                table, ids = name.partition("/")[2], torch.from_numpy(arrays[name].copy())
                if part == "erased":
                    self.tables[table].erase(ids)
                else:
                    self.tables[table].assign(ids, torch.from_numpy(arrays[f"rows/{table}"].copy()))
        weights = {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith("dense/")}
        self.model.load_state_dict(
            self.model.state_dict() | {name: torch.from_numpy(weight.copy()) for name, weight in weights.items()}
        )
        self.note_changes()

    def request(
        self, method: str, path: str, body: bytes | str | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Return status and content of an answer, on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def figures(self) -> dict[str, float]:
        """Return what /metrics says."""
        lines = [line for line in self.request("GET", "/metrics")[1].decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def counted(self) -> dict[int, int]:
        """Return how many answers had which status."""
        found: dict[int, int] = {}
        for name, value in self.figures().items():
            if name.startswith("monolith_requests_total{"):
                status = int(name.partition('status="')[2].partition('"')[0])
                found[status] = found.get(status, 0) + int(value)
        return found

    def what_is_wrong(self) -> str:
        """Return what the server holds or answers otherwise than it must; nothing if all is right."""
        status, content = self.request("POST", PREDICT, self._body)
        if status != 200:
            return f"a good request got {status}: {content[:200]!r}"
        difference = np.abs(np.array(json.loads(content)["outputs"]) - self.expected).max()
        if not difference <= 1e-6:
            return f"predictions differ by {difference}"
        figures = self.figures()
        held = [figures[f'monolith_{name}{{model="movie"}}'] for name in ("generation", "sequence")]
        held += [figures[f'monolith_table_rows{{model="movie",table="{name}"}}'] for name in self.tables.tables]
        must = [self.generation, self.sequence, *(len(table) for table in self.tables.tables.values())]
        return "" if held == [float(one) for one in must] else f"position and rows are {held}, not {must}"

    def send(self, message: Message, **options: Any) -> Message:
        """Return the answer to a message of a peer that the server knows."""
        with connect(self.delta_address, PATIENCE_SECONDS, **(options or {"secret": self.secret})) as client:
            return client.request(message, PATIENCE_SECONDS)

    @contextlib.contextmanager
    def watched(self, report: Report) -> Iterator[None]:
        """Ask meanwhile whether the server lives; then write figures and findings into the report."""
        before, begin = self.counted(), time.monotonic()
        command = [sys.executable, "-m", "tests.hostile.ports.liveness", str(self.port)]
        watcher = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            yield
            seen = json.loads(watcher.communicate("\n", timeout=2 * PATIENCE_SECONDS)[0])
        except (OSError, http.client.HTTPException, RemoteError, CorruptFrameError) as error:
            # Nobody but the server is at the other end of every connection.
            report.findings.append(f"{report.kind}, seed {report.seed}: {error!r}; {self._end()}")
            return
        finally:
            watcher.kill()
            watcher.communicate()
            report.seconds = time.monotonic() - begin
        counts = {status: count - before.get(status, 0) for status, count in self.counted().items()}
        failed = sum(count for status, count in counts.items() if 500 <= status != 503)
        report.figures |= {
            "5xx": failed,
            "503": counts.get(503, 0),
            "slowest_liveness_seconds": round(seen["slowest"], 3),
            "liveness_asked": seen["asked"],
            "latest_wake_of_the_watcher_seconds": round(seen["latest_wake"], 3),
        }
        for is_wrong, words in (
            (failed, f"{failed} answers were 5xx; the last words of the log: {self.last_words()}"),
            (seen["failures"], f"{seen['failures']} questions whether the server lives had no good answer"),
            (seen["slowest"] > LIVENESS_SECONDS, f"an answer whether it lives took {seen['slowest']:.3f} s"),
            (self.process.poll() is not None, self._end()),
        ):
            if is_wrong:
                report.findings.append(f"{report.kind}, seed {report.seed}: {words}")

    def last_words(self) -> str:
        """Return the end of what the server logged."""
        return self.log.read_text(errors="replace")[-1000:]

    def _end(self) -> str:
        return f"the server ended with {self.process.poll()}: {self.last_words()}"


@contextlib.contextmanager
def attacked(tls: TlsConfig | None = None) -> Iterator[AttackedServer]:
    """A server that takes deltas, with a shared secret or with certificates; ends with the block."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        base, log = Path(folder) / "versions", Path(folder) / "log"
        export(base, name="movie")
        options = ["--sync-address", "127.0.0.1:0"]
        if tls is not None:
            options += ["--tls-cert", tls.cert_path, "--tls-key", tls.key_path, "--tls-ca", tls.ca_path]
        with log.open("w") as stderr:
            with running(base, Path(folder) / "ready.json", *options, stderr=stderr) as (process, ready):
                yield AttackedServer(process, ready, base, log)
