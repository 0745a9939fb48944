"""job_status: how a job that runs is, asked of its chief and its parameter servers."""

from pathlib import Path
from typing import Any

from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.parallel import RemoteShard, RetryConfig
from monolith.parallel.coordination.messages import CoordinationRequest, ask
from monolith.train.job.place import CLUSTER_FOLDER, WORKER
from monolith.wire import Client, SharedSecret


def job_status(model_dir: Path, *, timeout_seconds: float) -> dict[str, Any]:
    """Return generation, step, workers and servers of the job in a folder.

    Raises:
        FileNotFoundError: No job runs there.
    """
    folder = model_dir / CLUSTER_FOLDER
    address = FilesServiceDiscovery(folder).query(WORKER).get(0) if folder.is_dir() else None
    if address is None:
        raise FileNotFoundError(f"no job of several processes runs in {model_dir}; `monolith launch` starts one")
    secret = SharedSecret.of_folder(folder)
    with Client(address, secret=secret) as client:
        found = dict(client.request(ask(CoordinationRequest.STATUS), timeout_seconds).meta)
    found["servers"] = [_server(one, secret, timeout_seconds) for one in found["servers"]]
    return found


def _server(address: str, secret: SharedSecret, timeout_seconds: float) -> dict[str, Any]:
    retry = RetryConfig(deadline_seconds=timeout_seconds, attempt_seconds=timeout_seconds)
    with RemoteShard(address, secret=secret, retry=retry) as shard:
        try:
            status = shard.status()
        except OSError as error:
            return {"address": address, "state": f"lost: {error}"}
    state = "serving" if status["is_ready"] else "restoring" if status["shard"] is not None else "empty"
    return {"address": address, "state": state, **{key: status.get(key, {}) for key in ("num_rows", "bytes")}}
