"""What `monolith launch` does."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer

from monolith.cli.console import console
from monolith.cli.job.view import JobView
from monolith.cli.models.flags import LaunchFlags, TrainFlags
from monolith.launch.engines.external import ExternalEngine
from monolith.launch.engines.job import Engine, Job, Resources
from monolith.launch.engines.kubernetes import KubernetesConfig, KubernetesEngine
from monolith.launch.engines.local import LocalEngine
from monolith.launch.engines.local_ranks import ranks_of, servers_of
from monolith.launch.supervisor import SupervisorConfig
from monolith.train.config import flag_kinds, flag_name

_OWN = ("server_type", "index")
_PASSED_BY_JOB = ("model_dir", "num_ps", "num_workers")


def run(model: str, settings: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Run a job by its engine, and exit with its status."""
    for name in _OWN:
        if name in settings:
            raise ValueError(f"{flag_name(name)} is for one process, and `monolith launch` starts all; leave it out")
    _check_discovery(settings)
    _check_engine(own)
    known = flag_kinds(TrainFlags)
    passed = {name: value for name, value in {**settings, **own}.items() if name in known}
    if own["sync"] or settings.get("enable_sync_training", False):
        raise typer.Exit(_run_ranks(model, settings, passed, own))
    job = Job(
        model=model,
        folder=str(settings.get("model_dir") or ""),
        num_ps=settings.get("num_ps", 1),
        num_workers=settings.get("num_workers", 1),
        num_spares=settings.get("num_extra_ps", 0) + settings.get("num_redundant_ps", 0),
        num_dsworkers=own["num_dsworkers"],
        flags=flags_of({name: value for name, value in passed.items() if name not in _PASSED_BY_JOB}),
    )
    raise typer.Exit(_ENGINES[own["engine"]](own, job, settings).run(job))


def _run_ranks(model: str, settings: Mapping[str, Any], passed: Mapping[str, Any], own: Mapping[str, Any]) -> int:
    """Run the ranks of synchronous training on this machine."""
    if own["engine"] != "local":
        raise ValueError(f"--engine {own['engine']} starts no ranks; start synchronous training there with torchrun")
    if not settings.get("model_dir"):
        raise ValueError("monolith launch needs --model-dir, the folder that its processes have in common")
    if own["num_dsworkers"]:
        raise ValueError("--num-dsworkers is for jobs with parameter servers; start a data service by itself")
    num_ps = settings.get("num_ps", 0)
    if settings.get("enable_partial_sync_training") and not num_ps:
        raise ValueError("--enable-partial-sync-training: say with --num-ps how many parameter servers hold the rows")
    for name in ("num_extra_ps", "num_redundant_ps"):
        if settings.get(name):
            raise ValueError(f"{flag_name(name)}: ranks have no spare parameter servers; leave it out")
    config = SupervisorConfig(max_restarts=own["max_restarts"], stop_seconds=own["stop_seconds"], restarts_all=True)
    num_ranks = settings.get("num_workers", 2)
    kinds = {"enable_sync_training": True, "enable_partial_sync_training": num_ps > 0}
    flags = flags_of({**passed, "num_workers": num_ranks, **kinds})
    with TemporaryDirectory(prefix="monolith-ranks-") as meetings:
        roles = servers_of(model, flags, num_ps) + ranks_of(model, flags, num_ranks, Path(meetings))
        return LocalEngine(config, JobView(console)).run_roles(roles, settings["model_dir"])


def _local(own: Mapping[str, Any], job: Job, settings: Mapping[str, Any]) -> Engine:
    config = SupervisorConfig(max_restarts=own["max_restarts"], stop_seconds=own["stop_seconds"])
    return LocalEngine(config, JobView(console))


def _external(own: Mapping[str, Any], job: Job, settings: Mapping[str, Any]) -> Engine:
    return ExternalEngine(typer.echo, as_json=own["json"])


def _ray(own: Mapping[str, Any], job: Job, settings: Mapping[str, Any]) -> Engine:
    module = import_module("monolith.launch.engines.ray_engine")
    config = module.RayConfig(
        name=own["job_name"] or job_name(job.folder),
        address=own["ray_address"],
        runtime_env=_json_object(own["ray_runtime_env"], "ray_runtime_env"),
        ps=_resources(own, "ps"),
        worker=_resources(own, "worker"),
        max_restarts=own["max_restarts"],
        stop_seconds=own["stop_seconds"],
    )
    engine: Engine = module.RayEngine(config, typer.echo)
    return engine


def _k8s(own: Mapping[str, Any], job: Job, settings: Mapping[str, Any]) -> Engine:
    if not own["dry_run"]:
        raise ValueError(
            "--engine k8s talks to no cluster: say --dry-run, and give what it prints to `kubectl apply -f -`"
        )
    for name in ("discovery", "listen", "tls_cert", "tls_key", "tls_ca"):
        if name in settings:
            raise ValueError(f"--engine k8s sets {flag_name(name)} for every process; leave it out")
    config = KubernetesConfig(
        name=own["job_name"] or job_name(job.folder),
        image=own["image"],
        volume_claim=own["volume_claim"],
        tls_secret=own["tls_secret"],
        ps=_resources(own, "ps"),
        worker=_resources(own, "worker"),
        max_restarts=own["max_restarts"],
        stop_seconds=own["stop_seconds"],
    )
    engine = KubernetesEngine(config, typer.echo)
    if bool(own["tls_secret"]) == bool(settings.get("insecure")):
        hosts = " ".join(f"--host {host}" for host in engine.hosts(job))
        raise ValueError(
            "--engine k8s needs either --tls-secret NAME or --insecure, where the network of the cluster is trusted. "
            f"Make the Secret by `monolith certs new certs {hosts}` and `kubectl create secret generic NAME "
            "--from-file=certs`"
        )
    return engine


_ENGINES: Mapping[str, Callable[[Mapping[str, Any], Job, Mapping[str, Any]], Engine]] = {
    "local": _local,
    "ray": _ray,
    "external": _external,
    "k8s": _k8s,
}
_RESOURCES = ("num_dsworkers", "job_name", "ps_cpus", "ps_memory_gb", "worker_cpus", "worker_memory_gb")
_READ: Mapping[str, tuple[str, ...]] = {
    "local": ("sync", "num_dsworkers", "max_restarts", "stop_seconds"),
    "ray": ("max_restarts", "stop_seconds", "ray_address", "ray_runtime_env", *_RESOURCES),
    "external": ("num_dsworkers", "json"),
    "k8s": ("max_restarts", "stop_seconds", "dry_run", "image", "volume_claim", "tls_secret", *_RESOURCES),
}
"""Flags of `monolith launch` that an engine reads."""


def _check_engine(own: Mapping[str, Any]) -> None:
    """Reject an engine that does not exist, and flags that it would not read."""
    engine = own["engine"]
    if engine not in _ENGINES:
        raise ValueError(f"--engine is one of {', '.join(_ENGINES)}, got {engine!r}")
    common = {"engine", *flag_kinds(TrainFlags)}
    defaults = {one.name: one.default for one in fields(LaunchFlags)}
    for name, value in own.items():
        if name not in common and name not in _READ[engine] and value != defaults[name]:
            readers = [one for one, names in _READ.items() if name in names]
            raise ValueError(
                f"{flag_name(name)} is for --engine {' or '.join(readers)}; --engine {engine} does not read it"
            )


def _check_discovery(settings: Mapping[str, Any]) -> None:
    """Reject what says the role of one process, or leaves open how many of a list are meant."""
    kind = settings.get("discovery_type")
    if settings.get("tf_config") or (kind is not None and kind.name in ("PRIMUS", "MLP")):
        raise ValueError(
            "TF_CONFIG and the MLP platform say the role of one process, and `monolith launch` starts all; let the "
            "scheduler start `monolith train`, or leave out --discovery-type and --tf-config"
        )
    if str(settings.get("discovery", "")).startswith("static:") and not {"num_ps", "num_workers"} <= settings.keys():
        raise ValueError("with a list of addresses, say --num-ps and --num-workers: how many of it to start")


def _resources(own: Mapping[str, Any], kind: str) -> Resources:
    return Resources(cpus=own[f"{kind}_cpus"], memory_gb=own[f"{kind}_memory_gb"])


def job_name(folder: str) -> str:
    """Return the name of the job that trains in a folder, as every cluster takes it.

    >>> job_name("/models/Ranking_2/")
    'ranking-2'
    """
    return re.sub("[^a-z0-9]+", "-", Path(folder).absolute().name.lower()).strip("-") or "job"


def _json_object(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise ValueError(f"{flag_name(name)} must be a JSON object, got {text!r}: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{flag_name(name)} must be a JSON object, got {text!r}")
    return value


def flags_of(values: Mapping[str, Any]) -> list[str]:
    """Return flags that say these values.

    >>> flags_of({"num_ps": 2, "compile": True, "seed": None})
    ['--num-ps=2', '--compile=true']
    """
    return [f"{flag_name(name)}={_text(value)}" for name, value in values.items() if value is not None]


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name.lower()
    return str(value).lower() if isinstance(value, bool) else str(value)
