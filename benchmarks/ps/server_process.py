"""The server's process: one table behind a plain and an encrypted table server, and a plain socket beside them."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.ids import ids_of_rows
from benchmarks.measure import timed
from benchmarks.peers.protocol import Operation, serve
from benchmarks.ps.shape import chosen_rows, table_configs
from monolith.embedding import MultiTable
from monolith.parallel import TableServer
from monolith.wire import SharedSecret
from monolith.wire.certificates import certificates_of

LENGTHS = struct.Struct("<QQ")
"""What a client of the plain socket says first: bytes of each request, and of each reply."""

_FILL_ROWS = 1 << 18

_QUIET_SECONDS = 0.02
"""By then the helper threads of a local step are asleep: awake they would slow down what is measured next."""

_running: list[object] = []


def setup(settings: dict[str, Any]) -> Mapping[str, Operation]:
    """Fill the table, listen, and write the addresses to `addresses.json` in the folder."""
    folder = Path(settings["folder"])
    tables = MultiTable(table_configs(settings["dim"]))
    for begin in range(0, settings["num_rows"], _FILL_ROWS):
        ids = ids_of_rows(np.arange(begin, min(begin + _FILL_ROWS, settings["num_rows"]), dtype=np.int64))
        tables["benchmark"].assign(torch.from_numpy(ids), torch.randn(len(ids), settings["dim"]))
    plain = TableServer(tables, secret=SharedSecret.made_in_folder(folder))
    encrypted = TableServer(tables, tls=certificates_of(folder / "certificates"))
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_answer, args=(listener,), daemon=True).start()
    _running.extend([plain, encrypted, listener])
    addresses = {
        "plain": str(plain.address),
        "encrypted": str(encrypted.address),
        "socket": list(listener.getsockname()),
    }
    (folder / "addresses.json").write_text(json.dumps(addresses))
    return {"step": _step(tables, settings)}


def _answer(listener: socket.socket) -> None:
    """Answer clients, each on a thread of its own."""
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_answer_one, args=(client,), daemon=True).start()


def _answer_one(client: socket.socket) -> None:
    """Take its number of bytes in and give its number of bytes out, until it hangs up."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client:
        lengths = bytearray(LENGTHS.size)
        if not read_all(client, memoryview(lengths)):
            return
        request_bytes, reply_bytes = LENGTHS.unpack(lengths)
        # Not zeros: the system keeps those of a whole buffer in one page, which never leaves the first cache.
        request, reply = memoryview(bytearray(request_bytes)), os.urandom(reply_bytes)
        while read_all(client, request):
            client.sendall(reply)


def _step(tables: MultiTable, settings: dict[str, Any]) -> Operation:
    """Return what a push does in the server, without the wire: a step of as many rows."""
    num_ids = settings["num_ids"]
    gradients = torch.randn(num_ids * settings["dim"])

    def run(seed: int) -> tuple[float, int]:
        ids = ids_of_rows(chosen_rows(settings["num_rows"], num_ids, seed=seed))
        plan = tables.plan(torch.from_numpy(ids), [num_ids], dedup=False)
        seconds = timed(lambda: plan.apply_gradients(gradients, global_step=1))
        time.sleep(_QUIET_SECONDS)
        return seconds, 0

    return run


def read_all(sock: socket.socket, view: memoryview) -> bool:
    """Fill the view; False if the other side hung up."""
    filled = 0
    while filled < len(view):
        count = sock.recv_into(view[filled:])
        if count == 0:
            return False
        filled += count
    return True


if __name__ == "__main__":
    serve(setup)
