"""A client's process: a connection to each table server and to the plain sockets beside them.

Workers of a job are processes of their own. Clients that share one interpreter would be measured instead of the server:
Python's TLS takes the interpreter's lock for every 16 KB that it reads.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.ids import ids_of_rows
from benchmarks.measure import timed
from benchmarks.peers.protocol import Operation, serve
from benchmarks.ps.many_connections import Call
from benchmarks.ps.plain_socket import PlainSocket
from benchmarks.ps.shape import chosen_rows, table_configs
from monolith.parallel import RemoteTables
from monolith.wire import SharedSecret
from monolith.wire.certificates import certificates_of


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Connect; each operation is many calls of one kind, begun at the moment that its number names."""
    torch.set_num_threads(1)
    folder, dim, num_ids, repeats = Path(settings["folder"]), settings["dim"], settings["num_ids"], settings["repeats"]
    addresses = json.loads((folder / "addresses.json").read_text())
    host, port = addresses["socket"]
    ids = torch.from_numpy(ids_of_rows(chosen_rows(settings["num_rows"], num_ids, seed=settings["seed"])))
    proofs: dict[str, dict[str, Any]] = {
        "plain": {"secret": SharedSecret.of_folder(folder)},
        "encrypted": {"tls": certificates_of(folder / "certificates")},
    }
    rows = torch.zeros(num_ids * dim)
    ids_bytes, rows_bytes = 8 * num_ids, 4 * num_ids * dim
    calls: dict[str, Call] = {
        "pull_socket": PlainSocket((host, port), ids_bytes, rows_bytes).exchange,
        "push_socket": PlainSocket((host, port), ids_bytes + rows_bytes, 8).exchange,
    }
    for kind, proof in proofs.items():
        plan = RemoteTables(table_configs(dim), [addresses[kind]], **proof).plan(ids, [num_ids])
        calls[f"{kind}_pull"] = lambda plan=plan: plan.lookup(rows)  # type: ignore[misc]
        calls[f"{kind}_push"] = lambda plan=plan: plan.apply_gradients(rows, global_step=1)  # type: ignore[misc]
    return {name: _many(call, repeats) for name, call in calls.items()}


def _many(call: Call, repeats: int) -> Operation:
    def run(begin_ns: int) -> tuple[float, int]:
        call()
        time.sleep(max(0.0, (begin_ns - time.monotonic_ns()) / 1e9))
        return timed(lambda: [call() for _ in range(repeats)]), 0

    return run


if __name__ == "__main__":
    serve(setup)
