"""job_status: how a job that runs is, asked of its chief and its parameter servers."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from monolith.checkpoint.shards.frozen_shards import ask_all
from monolith.cluster.discovery import FilesServiceDiscovery
from monolith.parallel import RemoteShard, RetryConfig
from monolith.parallel.coordination.messages import CoordinationRequest, ask
from monolith.train.job.place import WORKER
from monolith.train.job.scale.shape import CLUSTER_FOLDER
from monolith.wire import Client, SharedSecret, TlsConfig


def job_status(model_dir: Path, *, tls: TlsConfig | None = None, timeout_seconds: float) -> dict[str, Any]:
    """Return generation, step, workers and servers of the job in a folder.

    Raises:
        FileNotFoundError: No job runs there.
    """
    with chief_client(model_dir, tls=tls) as client:
        found = dict(client.request(ask(CoordinationRequest.STATUS), timeout_seconds).meta)
    secret = SharedSecret.of_folder(model_dir / CLUSTER_FOLDER)
    return with_servers(found, secret=secret, tls=tls, timeout_seconds=timeout_seconds)


def chief_client(model_dir: Path, *, tls: TlsConfig | None = None) -> Client:
    """Return a client of the chief of the job in a folder.

    Raises:
        FileNotFoundError: No job runs there.
    """
    folder = model_dir / CLUSTER_FOLDER
    address = FilesServiceDiscovery(folder).query(WORKER).get(0) if folder.is_dir() else None
    if address is None:
        raise FileNotFoundError(f"no job of several processes runs in {model_dir}; `monolith launch` starts one")
    return Client(address, secret=SharedSecret.of_folder(folder), tls=tls)


def with_servers(
    status: Mapping[str, Any], *, secret: SharedSecret, tls: TlsConfig | None = None, timeout_seconds: float
) -> dict[str, Any]:
    """Return what a chief says of its job, with what the parameter servers say of themselves."""
    servers = ask_servers(status["servers"], secret=secret, tls=tls, timeout_seconds=timeout_seconds)
    return {**status, "servers": servers}


def ask_servers(
    addresses: Sequence[str], *, secret: SharedSecret, tls: TlsConfig | None = None, timeout_seconds: float
) -> list[dict[str, Any]]:
    """Return what the parameter servers at these addresses say of themselves; one that is silent counts as lost."""
    retry = RetryConfig(deadline_seconds=timeout_seconds, attempt_seconds=timeout_seconds)

    def ask_server(address: str) -> dict[str, Any]:
        with RemoteShard(address, secret=secret, tls=tls, retry=retry) as shard:
            try:
                found = shard.status()
            except OSError as error:
                return {"address": address, "state": f"lost: {error}"}
        state = "serving" if found["is_ready"] else "restoring" if found["shard"] is not None else "empty"
        return {
            "address": address,
            "state": state,
            **{key: found.get(key, {}) for key in ("num_rows", "bytes", "health")},
        }

    return list(ask_all(list(addresses), ask_server))


def job_figures(status: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, labels and value of every figure of a job's status, for Prometheus.

    >>> worker = {"index": 1, "state": "training", "staleness": 2}
    >>> health = {"status": "OK", "message": "", "memory_bytes": 5000, "memory_limit_bytes": None}
    >>> server = {"state": "serving", "num_rows": {"uid": 7}, "bytes": {"uid": 900}, "health": health}
    >>> status = {"generation": 3, "global_step": 10, "saved_step": None, "workers": [worker], "servers": [server]}
    >>> for name, labels, value in job_figures(status):
    ...     print(name, labels, value)
    monolith_job_generation {} 3
    monolith_job_global_step {} 10
    monolith_job_worker_up {'worker': '1'} 1
    monolith_job_worker_staleness {'worker': '1'} 2
    monolith_job_server_up {'ps': '0'} 1
    monolith_job_server_rows {'ps': '0', 'table': 'uid'} 7
    monolith_job_server_bytes {'ps': '0', 'table': 'uid'} 900
    monolith_job_server_healthy {'ps': '0'} 1
    monolith_job_server_memory_bytes {'ps': '0'} 5000
    """
    for name, value in status.items():
        if _is_number(value):
            yield f"monolith_job_{name}", {}, value
    for one in status["workers"]:
        labels = {"worker": str(one["index"])}
        yield "monolith_job_worker_up", labels, int(one.get("state") not in ("lost", "not here yet"))
        for name, value in one.items():
            if name != "index" and _is_number(value):
                yield f"monolith_job_worker_{name}", labels, value
    yield from server_figures(status["servers"])


def server_figures(servers: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, labels and value of every figure of parameter servers, for Prometheus."""
    for index, one in enumerate(servers):
        yield "monolith_job_server_up", {"ps": str(index)}, int(one["state"] == "serving")
        for table, count in one.get("num_rows", {}).items():
            yield "monolith_job_server_rows", {"ps": str(index), "table": table}, count
        for table, count in one.get("bytes", {}).items():
            yield "monolith_job_server_bytes", {"ps": str(index), "table": table}, count
        if health := one.get("health"):
            yield "monolith_job_server_healthy", {"ps": str(index)}, int(health["status"] == "OK")
            for name, value in health.items():
                if _is_number(value):
                    yield f"monolith_job_server_{name}", {"ps": str(index)}, value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
