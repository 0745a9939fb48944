"""Profiles of running processes: an endpoint that records one, and the side that asks for it."""

import gzip
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import _C, profiler

from monolith.closing import Closing
from monolith.observe.profiling import TRACE_SUFFIX, Trace
from monolith.wire import Address, Client, Message, TlsConfig, listen

RECORD: Final = 1
_MAX_MILLISECONDS: Final = 600_000
_PATIENCE_SECONDS: Final = 120.0
"""How long a trace may take to be written and sent, after its recording."""


class ProfilerServer(Closing):
    """Records what all threads of this process do, when asked; one recording at a time."""

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", tls: TlsConfig | None = None, insecure: bool = False
    ) -> None:
        self._busy = threading.Lock()
        self._server = listen(Address(host, port), self._answer, tls=tls, insecure=insecure)
        self.address = str(self._server.address)

    def close(self) -> None:
        """Stop listening."""
        self._server.close()

    def _answer(self, message: Message) -> Message:
        milliseconds = message.meta.get("duration_ms")
        if message.type != RECORD or not isinstance(milliseconds, int) or not 0 < milliseconds <= _MAX_MILLISECONDS:
            raise ValueError(f"a profile takes 1 to {_MAX_MILLISECONDS} milliseconds, got {milliseconds!r}")
        if not self._busy.acquire(blocking=False):
            raise RuntimeError("a profile of this process is being recorded already; ask again when it is done")
        try:
            trace = _record(
                milliseconds / 1000,
                with_stack=message.meta.get("with_stack") is True,
                with_device=message.meta.get("with_device") is True,
            )
        finally:
            self._busy.release()
        return Message(type=RECORD, arrays={"trace": np.frombuffer(gzip.compress(trace), dtype=np.uint8)})


def _record(seconds: float, *, with_stack: bool, with_device: bool) -> bytes:
    activities = [profiler.ProfilerActivity.CPU]
    if with_device and torch.cuda.is_available():
        activities.append(profiler.ProfilerActivity.CUDA)
    # The thread that records is not one that works: without this setting the trace would be empty.
    everything = _C._profiler._ExperimentalConfig(profile_all_threads=True)
    options = {"activities": activities, "with_stack": with_stack, "experimental_config": everything}
    with tempfile.TemporaryDirectory() as folder:
        trace = Trace(folder, options)
        trace.start()
        time.sleep(seconds)
        return trace.stop("profile").read_bytes()


def record_all(
    addresses: Mapping[str, str],
    folder: str | Path,
    *,
    duration_ms: int,
    with_stack: bool = False,
    with_device: bool = True,
    tls: TlsConfig | None = None,
) -> list[str]:
    """Record processes, by a name for each, at the same time; return the compressed trace files, in that order."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    request = Message(
        type=RECORD, meta={"duration_ms": duration_ms, "with_stack": with_stack, "with_device": with_device}
    )

    def fetch(name: str, address: str) -> str:
        with Client(address, tls=tls) as client:
            reply = client.request(request, timeout_seconds=duration_ms / 1000 + _PATIENCE_SECONDS)
        path = target / f"{name}.{stamp}{TRACE_SUFFIX}.gz"
        path.write_bytes(reply.arrays["trace"].tobytes())
        return str(path)

    with ThreadPoolExecutor(max_workers=max(1, len(addresses))) as pool:
        return list(pool.map(fetch, addresses.keys(), addresses.values()))
