"""The discovery that the settings of a run ask for."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from monolith.cluster.discovery import ServiceDiscovery, discovery_from
from monolith.cluster.discovery.mlp_discovery import MLPServiceDiscovery
from monolith.cluster.discovery.tf_config import TfConfigServiceDiscovery
from monolith.cluster.platform.tf_config_environment import tf_config_text
from monolith.train.config.runner_config import RunnerConfig, ServiceDiscoveryType

_log = logging.getLogger(__name__)


def asked_type(config: RunnerConfig) -> ServiceDiscoveryType | None:
    """Return the kind of discovery that settings of the original ask for; None if they ask for none.

    `discovery_type` says it; without it `tf_config`, `zk_server` and `uuid` do.

    >>> asked_type(RunnerConfig(zk_server="h:2181")).name, asked_type(RunnerConfig())
    ('ZK', None)
    """
    if "discovery_type" in (*config.changed(), *config.from_command_line):
        return config.discovery_type
    if config.tf_config:
        return ServiceDiscoveryType.PRIMUS
    if config.zk_server:
        return ServiceDiscoveryType.ZK
    return ServiceDiscoveryType.CONSUL if config.uuid else None


def asked_discovery(config: RunnerConfig) -> ServiceDiscovery | None:
    """Return the discovery that settings ask for; None if they ask for none."""
    if config.discovery:
        return discovery_from(config.discovery)
    kind = asked_type(config)
    return None if kind is None else _of_type(kind, config, config.uuid)


def get_discovery(runner_conf: RunnerConfig, psm: str | None = None) -> ServiceDiscovery | None:
    """Return the discovery of a run: None for a local one, else that of `discovery`, else by `discovery_type`.

    PRIMUS reads the cluster from `tf_config`, or from TF_CONFIG, and sets `server_type` and `index` of the run. CONSUL
    looks under the name `psm`, MLP in the environment, ZK at `zk_server` under `deep_insight_name`, or `uuid`.
    """
    if runner_conf.is_local:
        return None
    if runner_conf.discovery:
        return discovery_from(runner_conf.discovery)
    found = _of_type(asked_type(runner_conf) or runner_conf.discovery_type, runner_conf, psm)
    if isinstance(found, TfConfigServiceDiscovery):
        runner_conf.server_type, runner_conf.index = found.server_type, found.index
    return found


@contextmanager
def monolith_discovery(runner_conf: RunnerConfig) -> Iterator[ServiceDiscovery | None]:
    """Give the discovery of a run to a block, and close it when the block ends; Consul's name is the run's `uuid`."""
    discovery = get_discovery(runner_conf, psm=None if runner_conf.is_local else runner_conf.uuid)
    _log.info("enter discovery: %s", type(discovery).__name__)
    try:
        yield discovery
    finally:
        if discovery is not None:
            discovery.close()
        _log.info("exit discovery: %s", type(discovery).__name__)


def _of_type(kind: ServiceDiscoveryType, config: RunnerConfig, psm: str | None) -> ServiceDiscovery:
    if kind is ServiceDiscoveryType.PRIMUS:
        return TfConfigServiceDiscovery(_tf_config(config.tf_config or tf_config_text()))
    if kind is ServiceDiscoveryType.MLP:
        return MLPServiceDiscovery()
    # The others need optional packages.
    if kind is ServiceDiscoveryType.CONSUL:
        module = import_module("monolith.cluster.discovery.consul.consul_discovery")
        consul: ServiceDiscovery = module.ConsulServiceDiscovery(psm or "")
        return consul
    job_name = config.deep_insight_name or config.uuid
    if not job_name:
        raise ValueError("discovery_type=zk finds the job by its name: set deep_insight_name")
    module = import_module("monolith.cluster.discovery.zookeeper.zk_discovery")
    zookeeper: ServiceDiscovery = module.ZKServiceDiscovery(job_name, config.zk_server)
    return zookeeper


def _tf_config(text: str | None) -> dict[str, object]:
    if not text:
        raise ValueError(
            "discovery_type=primus reads the cluster from tf_config, which is empty, and TF_CONFIG is not set; pass "
            "it as JSON"
        )
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"tf_config is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"tf_config must be a JSON object, got {text!r}")
    return value
