"""What every discovery that processes write to must do; `make` opens one more view of the same registrations."""

import time

from tests.patience import PATIENCE_SECONDS


def check_registered_addresses_are_found(make):
    with make() as one, make() as other:
        one.register("ps", 0, "192.168.0.1:1001")
        one.register("ps", 1, "192.168.0.2:1002")
        assert seen(other, "ps", {0: "192.168.0.1:1001", 1: "192.168.0.2:1002"})
        one.deregister("ps", 0, "192.168.0.1:1001")
        one.deregister("ps", 1, "192.168.0.2:1002")
        assert seen(other, "ps", {})


def check_a_second_registration_replaces_the_address(make):
    with make() as one, make() as other:
        one.register("ps", 0, "192.168.0.1:1001")
        one.register("ps", 0, "192.168.0.2:1002")
        assert seen(other, "ps", {0: "192.168.0.2:1002"})


def check_names_are_apart(make):
    with make() as one, make() as other:
        one.register("ps", 0, "192.168.0.1:1001")
        one.register("worker", 0, "192.168.0.1:1002")
        assert seen(other, "ps", {0: "192.168.0.1:1001"})
        assert seen(other, "worker", {0: "192.168.0.1:1002"})
        assert other.query("chief") == {}


def check_indices_come_in_order_and_ipv6_stays_whole(make):
    with make() as one, make() as other:
        for index in (10, 2, 0):
            one.register("ps", index, f"[fd00::{index}]:{7000 + index}")
        assert seen(other, "ps", {index: f"[fd00::{index}]:{7000 + index}" for index in (0, 2, 10)})
        assert list(other.query("ps")) == [0, 2, 10]


def check_closing_takes_registrations_back(make):
    with make() as other:
        with make() as one:
            one.register("ps", 0, "192.168.0.1:1001")
            assert seen(other, "ps", {0: "192.168.0.1:1001"})
        one.close()
        assert seen(other, "ps", {})


def check_a_missing_registration_may_be_taken_back(make):
    with make() as one:
        one.deregister("ps", 3, "192.168.0.1:1001")


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]


def seen(discovery, name, expected):
    """Wait, half a minute at most, until a query gives what is expected; changes may take a moment to arrive."""
    end = time.monotonic() + PATIENCE_SECONDS
    while discovery.query(name) != expected and time.monotonic() < end:
        time.sleep(0.01)
    assert discovery.query(name) == expected
    return True
