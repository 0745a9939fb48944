"""Memory against its limit."""

import re

from monolith.observe.machine_health import check_machine_health, machine_info, resident_bytes
from monolith.protos.machine_health_pb2 import MachineHealthResult


def test_no_limit_is_never_reached():
    assert check_machine_health(machine_info()) == b""
    assert check_machine_health(machine_info(mem_limit=1 << 62)) == b""


def test_a_limit_that_is_reached_is_told_with_both_figures():
    result = MachineHealthResult.FromString(check_machine_health(machine_info(mem_limit=0)))
    assert result.status == MachineHealthResult.OUT_OF_MEMORY
    assert re.fullmatch(r"Memory limit exceeded\. Current: [1-9]\d*, Limit: 0", result.message)


def test_memory_that_is_taken_counts():
    before = resident_bytes()
    taken = bytearray(64 << 20)
    taken[::4096] = b"x" * len(taken[::4096])  # memory that nobody wrote to is not there yet
    assert 60 << 20 < resident_bytes() - before < 100 << 20
