"""A few attacks of every kind on real servers, and that what must not happen would be noticed."""

import random

import numpy as np
import pytest
import torch

from monolith.errors import RemoteError
from tests.hostile.ports import attacked_server, frames, requests, slow_clients, strangers
from tests.hostile.ports.made_frames import good_delta
from tests.hostile.ports.raw_requests import raw_request
from tests.hostile.report import Report
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def servers():
    """A server with a secret; certificates, and a server that asks for them."""
    with attacked_server.attacked() as server, strangers.certified() as (certificates, tls_server):
        yield server, tls_server, certificates


@pytest.fixture
def server(servers):
    return servers[0]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Other tests may have the processors; how quick a server is, a campaign measures."""
    monkeypatch.setattr(attacked_server, "LIVENESS_SECONDS", PATIENCE_SECONDS)


def assert_good(report: Report, count: int) -> None:
    assert report.is_good, report.table()
    assert report.total.tried == count
    assert report.figures["5xx"] == 0
    assert 0 < report.figures["slowest_liveness_seconds"] < PATIENCE_SECONDS


def test_damaged_frames_change_nothing_and_good_ones_are_applied(server):
    report = frames.attack_at(server, 3, 60)
    assert_good(report, 60)
    assert report.total.refused >= 30 and report.total.read_right >= 1


def test_requests_of_any_kind_are_answered_and_good_ones_rightly(server, monkeypatch):
    monkeypatch.setattr(requests, "is_installed", lambda: False)
    report = requests.attack_at(server, 3, 60)
    assert_good(report, 60)
    assert report.total.refused >= 30
    assert "not installed" in report.figures["schemathesis"]
    assert report.figures["good_requests_between"] >= 3


@pytest.mark.services
@pytest.mark.skipif(not requests.is_installed(), reason="needs schemathesis, of the extra `services`")
def test_requests_made_from_the_description_are_answered(server):
    report = requests.attack_at(server, 3, 100)
    assert_good(report, 100)
    assert {"described, positive", "described, negative"} <= set(report.parts)


def test_slow_clients_hold_up_neither_trainer_nor_clients(server):
    report = slow_clients.attack_at(server, 3, 100)
    assert_good(report, 100)
    assert report.figures["pushes"] == report.figures["questions"] == 4


def test_strangers_change_nothing_and_learn_nothing(servers):
    report = strangers.attack_at(*servers, 3, 40)
    assert_good(report, 40)
    if servers[1] is not None:
        assert {"TLS, no certificate", "paths"} <= set(report.parts)


def test_a_server_that_holds_something_else_is_noticed(server):
    ids = torch.tensor([5])
    row = server.tables["mov"].lookup(ids)
    had_row = ids[0] in torch.cat([some for some, _ in server.tables["mov"].items()])
    server.tables["mov"].assign(ids, row + 1)
    server.note_changes()
    try:
        assert "predictions differ" in server.what_is_wrong()
        report = frames.attack_at(server, 4, 2)
        assert not report.is_good and report.total.wrong_values == 2
    finally:
        server.tables["mov"].assign(ids, row) if had_row else server.tables["mov"].erase(ids)
        server.note_changes()
    server.sequence += 1
    try:
        assert "position and rows are" in server.what_is_wrong()
    finally:
        server.sequence -= 1
    assert server.what_is_wrong() == ""


@pytest.mark.parametrize("error", [ConnectionRefusedError(), RemoteError("a good delta was refused")])
def test_a_server_that_is_gone_or_refuses_what_is_good_is_noticed(server, error):
    report = Report("made", 1)
    with server.watched(report):
        raise error
    assert not report.is_good
    assert repr(error) in report.findings[0]


def test_slow_answers_are_noticed(server, monkeypatch):
    monkeypatch.setattr(attacked_server, "LIVENESS_SECONDS", 1e-6)
    report = slow_clients.attack_at(server, 5, 1)
    assert not report.is_good
    assert any("whether it lives took" in finding for finding in report.findings)


def test_the_same_seed_makes_the_same_attacks(server):
    assert [raw_request(random.Random(n)) for n in range(50)] == [raw_request(random.Random(n)) for n in range(50)]
    first, second = (good_delta(server, random.Random(1)) for _ in range(2))
    assert all(np.array_equal(first.arrays[name], second.arrays[name]) for name in (*first.arrays, *second.arrays))
