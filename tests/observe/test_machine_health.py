"""Memory against its limit."""

import re
import resource
from pathlib import Path

import pytest

from monolith.observe.machine_health import check_machine_health, machine_info, resident_bytes
from monolith.protos.machine_health_pb2 import MachineHealthResult


def test_no_limit_is_never_reached():
    assert check_machine_health(machine_info()) == b""
    assert check_machine_health(machine_info(mem_limit=1 << 62)) == b""


def test_a_limit_that_is_reached_is_told_with_both_figures():
    result = MachineHealthResult.FromString(check_machine_health(machine_info(mem_limit=0)))
    assert result.status == MachineHealthResult.OUT_OF_MEMORY
    assert re.fullmatch(r"Memory limit exceeded\. Current: [1-9]\d*, Limit: 0", result.message)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say what a process has in use")
def test_memory_is_what_the_system_says():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    assert resident_bytes() == pytest.approx(pages * resource.getpagesize(), rel=0.05)
