"""How fast parameter servers answer, and which of them to keep."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import torch

from monolith.parallel.dense.control_clients import ControlClients
from monolith.parallel.dense.ps_variable import PsVariable
from monolith.wire import Address

_SIDE: Final = 256
"""A variable of 256 x 256 floats goes there and back with every call."""


def measure_servers(servers: ControlClients, seconds: float, *, scope: str = "server_speed") -> list[float]:
    """Return the calls per second that each server carries out; all are asked at the same time."""
    if not seconds > 0:
        raise ValueError(f"a measurement takes some seconds, got {seconds}")
    tasks = range(len(servers.addresses))
    with ThreadPoolExecutor(len(tasks), "server-speed") as threads:
        return list(threads.map(lambda task: _measure(servers, task, seconds, scope), tasks))


def _measure(servers: ControlClients, task: int, seconds: float, scope: str) -> float:
    zeros = torch.zeros(_SIDE, _SIDE)
    variable = PsVariable(servers, name=f"{scope}/hammered", initial_value=zeros, task=task, trainable=False)
    begun, calls = time.monotonic(), 0
    while (spent := time.monotonic() - begun) < seconds or not calls:
        variable.assign_add(zeros)
        calls += 1
    return calls / spent


def order_servers(hosts: Sequence[str], calls_per_second: Sequence[float]) -> list[int]:
    """Return the numbers of servers, best first.

    A server also gets the figures of all slower ones at the same host: a host with many servers shares its cores among
    them, and alone its best would be as fast as all of them together.

    >>> order_servers(["a", "b", "b"], [50.0, 40.0, 30.0])
    [1, 0, 2]
    """
    rising = sorted(range(len(hosts)), key=lambda one: (calls_per_second[one], one))
    totals: dict[str, float] = {}
    credited = [0.0] * len(hosts)
    for one in rising:
        totals[hosts[one]] = credited[one] = totals.get(hosts[one], 0.0) + calls_per_second[one]
    return sorted(range(len(hosts)), key=lambda one: (-credited[one], one))


def host_of(address: Address) -> str:
    """Return what two servers on one machine share of their addresses."""
    return address.host if address.path is None else "this machine"
