"""KubernetesEngine: a job as manifests for `kubectl apply`."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from monolith.launch.engines.job import DISPATCHER, DSWORKER, PS, WORKER, Job, Resources
from monolith.launch.supervisor import SCALED, USER_ERROR

PORTS: Mapping[str, int] = {PS: 7001, WORKER: 7002, DISPATCHER: 7003, DSWORKER: 7004}
USER_ID = 10001
"""Of the image that the Dockerfile builds."""

TLS_FOLDER = "/etc/monolith/tls"
_INDEX = "batch.kubernetes.io/job-completion-index"
_NAME = re.compile("[a-z]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class KubernetesConfig:
    """What the manifests name."""

    name: str
    """Of the job, and the beginning of all names in the cluster."""

    image: str
    """It has Monolith and the model's module."""

    volume_claim: str
    """A PersistentVolumeClaim that many nodes can write to; it is mounted at the folder of the job."""

    tls_secret: str = ""
    """A Secret with what `monolith certs new` writes; empty if the network is trusted."""

    ps: Resources = field(default_factory=Resources)
    worker: Resources = field(default_factory=Resources)

    max_restarts: int = 3
    stop_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Reject what a cluster would refuse, or could not run."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"a job's name in Kubernetes has up to 40 lower-case letters, digits and dashes, and begins with a "
                f"letter, got {self.name!r}; choose a --job-name"
            )
        if not self.image:
            raise ValueError("--engine k8s needs --image, which has Monolith and your model; the Dockerfile builds one")
        if not self.volume_claim:
            raise ValueError(
                "--engine k8s needs --volume-claim, a PersistentVolumeClaim of access mode ReadWriteMany: all "
                "processes write to the folder of the job"
            )


class KubernetesEngine:
    """Prints a List of manifests: for servers and for workers an indexed Job, and a Service that gives them names.

    Jobs, and not StatefulSets: parameter servers end with their job, and a StatefulSet would start them again.
    """

    def __init__(self, config: KubernetesConfig, say: Callable[[str], None]) -> None:
        """Take what the manifests name, and what prints them."""
        self._config, self._say = config, say

    def run(self, job: Job) -> int:
        """Print the manifests; return 0."""
        if not job.folder.startswith("/"):
            raise ValueError(f"--model-dir is a path inside the containers and begins with /, got {job.folder!r}")
        self._say(json.dumps({"apiVersion": "v1", "kind": "List", "items": self.manifests(job)}, indent=1))
        return 0

    def hosts(self, job: Job) -> list[str]:
        """Return the names of the pods that listen."""
        return [host for kind in _counts(job) for host in self._listeners(job, kind)]

    def manifests(self, job: Job) -> list[dict[str, Any]]:
        """Return all objects of a job."""
        counts = _counts(job)
        listed = ";".join(
            f"{kind}={','.join(f'{host}:{PORTS[kind]}' for host in self._listeners(job, kind))}" for kind in counts
        )
        flags = [*job.flags, f"--discovery=static:{listed}", "--listen=$(POD_IP)"]
        if self._config.tls_secret:
            files = {"cert": "node.pem", "key": "node.key", "ca": "authority.pem"}
            flags += [f"--tls-{name}={TLS_FOLDER}/{file}" for name, file in files.items()]
        job = replace(job, flags=flags)
        services = [self._service(kind, PORTS[kind]) for kind in counts]
        return services + [self._job(job, kind, count, PORTS[kind]) for kind, count in counts.items()]

    def _listeners(self, job: Job, kind: str) -> list[str]:
        """Return the names of the pods of a kind that listen: of the workers only the chief."""
        name, count = self._config.name, 1 if kind == WORKER else _counts(job)[kind]
        return [f"{name}-{kind}-{index}.{name}-{kind}" for index in range(count)]

    def _labels(self, kind: str) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": "monolith",
            "app.kubernetes.io/instance": self._config.name,
            "app.kubernetes.io/component": kind,
        }

    def _meta(self, kind: str) -> dict[str, Any]:
        return {"name": f"{self._config.name}-{kind}", "labels": self._labels(kind)}

    def _service(self, kind: str, port: int) -> dict[str, Any]:
        """Return what gives every pod a name of its own, also before it is ready: processes wait for each other."""
        spec = {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": self._labels(kind),
            "ports": [{"name": "monolith", "port": port}],
        }
        return {"apiVersion": "v1", "kind": "Service", "metadata": self._meta(kind), "spec": spec}

    def _job(self, job: Job, kind: str, count: int, port: int) -> dict[str, Any]:
        # A wrong setting, or a stop for other numbers, fails the job at once; a lost node is nobody's mistake.
        rules = [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [USER_ERROR, SCALED]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]
        spec = {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            "backoffLimitPerIndex": self._config.max_restarts,
            "maxFailedIndexes": 0,
            "podFailurePolicy": {"rules": rules},
            "template": {"metadata": {"labels": self._labels(kind)}, "spec": self._pod(job, kind, port)},
        }
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": self._meta(kind), "spec": spec}

    def _pod(self, job: Job, kind: str, port: int) -> dict[str, Any]:
        volumes: list[dict[str, Any]] = [
            {"name": "model", "persistentVolumeClaim": {"claimName": self._config.volume_claim}}
        ]
        if self._config.tls_secret:
            volumes.append({"name": "tls", "secret": {"secretName": self._config.tls_secret, "defaultMode": 0o440}})
        security = {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            # Not the rights of every file: the job's secret must stay its owner's.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        return {
            "subdomain": f"{self._config.name}-{kind}",
            "restartPolicy": "Never",  # the Job starts another pod, and counts
            "terminationGracePeriodSeconds": int(self._config.stop_seconds),
            "automountServiceAccountToken": False,
            "securityContext": security,
            "containers": [self._container(job, kind, port)],
            "volumes": volumes,
        }

    def _container(self, job: Job, kind: str, port: int) -> dict[str, Any]:
        mounts: list[dict[str, Any]] = [{"name": "model", "mountPath": job.folder}]
        if self._config.tls_secret:
            mounts.append({"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True})
        container: dict[str, Any] = {
            "name": kind,
            "image": self._config.image,
            "command": ["monolith"],
            "args": list(job.arguments(kind, "$(INDEX)")),
            "env": [
                {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{_INDEX}']"}}},
                {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ],
            "ports": [{"name": "monolith", "containerPort": port}],
            "resources": _requested(self._config.ps if kind == PS else self._config.worker),
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": mounts,
        }
        if kind != WORKER:  # of the workers only the chief listens
            probe = {"tcpSocket": {"port": "monolith"}, "periodSeconds": 10, "timeoutSeconds": 5}
            container["startupProbe"] = {**probe, "failureThreshold": 60}
            container["readinessProbe"] = probe
            container["livenessProbe"] = {**probe, "failureThreshold": 6}
        return container


def _counts(job: Job) -> dict[str, int]:
    """Return how many processes of each kind a job has."""
    counts = {PS: job.num_servers, WORKER: job.num_workers}
    return {**counts, DISPATCHER: 1, DSWORKER: job.num_dsworkers} if job.num_dsworkers else counts


def _requested(resources: Resources) -> dict[str, Any]:
    cpus = {"cpu": f"{round(1000 * resources.cpus)}m"}
    if not resources.memory_gb:
        return {"requests": cpus}
    memory = {"memory": f"{round(1000 * resources.memory_gb)}M"}
    return {"requests": {**cpus, **memory}, "limits": memory}
