"""A request fuzzer: requests made from /openapi.json, and requests made byte by byte; good ones in between."""

import http.client
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.hostile.ports.attacked_server import AttackedServer, attacked
from tests.hostile.ports.described_requests import described_requests, is_installed
from tests.hostile.ports.raw_requests import RawRequest, raw_request
from tests.hostile.report import Report
from tests.patience import PATIENCE_SECONDS

COUNT = 5200
DESCRIBED = 0.3
"""Part of the requests that are made from the description."""

CLIENTS = 4
"""That attack at a time."""

GOOD_EVERY = 20
UNSURE_SECONDS = 0.3
"""How long to wait for an answer that need not come."""


def attack(seed: int, count: int) -> Report:
    """Send `count` requests to a server."""
    with attacked() as server:
        return attack_at(server, seed, count)


def attack_at(server: AttackedServer, seed: int, count: int) -> Report:
    """Attack a server that is there."""
    report = Report("requests", seed)
    report.figures["schemathesis"] = "used" if is_installed() else "not installed: raw sockets sent all of the requests"
    with server.watched(report):
        if is_installed():
            for number, (part, status) in enumerate(described_requests(server, seed, round(count * DESCRIBED))):
                _judge(report, part, status, f"described request {number}", is_right=status is None or status < 500)
                if number % GOOD_EVERY == 0:
                    _look(server, report, f"described request {number}")
        done = report.total.tried
        report.figures["described"] = done
        lock = threading.Lock()

        def one(number: int) -> None:
            made = raw_request(random.Random(f"{seed}/{number}"))
            status, seconds = send(server, made)
            # What has been answered may be wrong; what must be answered must be.
            is_right = status in made.allowed if status is not None else not made.is_whole
            with lock:
                _judge(report, made.part, status, f"attack {number} took {seconds:.1f} s", is_right=is_right)
                if number % GOOD_EVERY == 0:
                    _look(server, report, f"attack {number}")

        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(one, range(max(0, count - done))))
        _look(server, report, "the end")
    return report


def send(server: AttackedServer, made: RawRequest) -> tuple[int | None, float]:
    """Return the status of the answer, None if there is none, and how long it took."""
    begin = time.monotonic()
    status = None
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_SECONDS) as sock:
        try:
            sock.sendall(made.data)
        except ConnectionError:
            pass  # the answer may be there before the end of the request
        sock.settimeout(PATIENCE_SECONDS if made.is_whole else UNSURE_SECONDS)
        answer = http.client.HTTPResponse(sock)
        try:
            answer.begin()
            status = answer.status
            answer.read()
        except (OSError, http.client.HTTPException):
            pass
        finally:
            answer.close()
    return status, time.monotonic() - begin


def _judge(report: Report, part: str, status: int | None, what: str, *, is_right: bool) -> None:
    verdict = "read_right" if status is not None and status < 400 else "refused"
    if status is None:
        report.figures["unanswered"] = report.figures.get("unanswered", 0) + 1
    if not is_right:
        verdict = "crashes" if status is None or status >= 500 else "wrong_values"
        report.findings.append(f"requests, seed {report.seed}, {what} ({part}): the answer was {status}")
    report.count(part, verdict)


def _look(server: AttackedServer, report: Report, what: str) -> None:
    report.figures["good_requests_between"] = report.figures.get("good_requests_between", 0) + 1
    if wrong := server.what_is_wrong():
        report.findings.append(f"requests, seed {report.seed}, {what}: {wrong}")
