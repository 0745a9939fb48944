"""The discovery that the settings of a run ask for."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from monolith.cluster.discovery import ServiceDiscovery
from monolith.cluster.discovery.mlp_discovery import MLPServiceDiscovery
from monolith.cluster.discovery.tf_config import TfConfigServiceDiscovery
from monolith.train.config.runner_config import RunnerConfig, ServiceDiscoveryType

_log = logging.getLogger(__name__)


def get_discovery(runner_conf: RunnerConfig, psm: str | None = None) -> ServiceDiscovery | None:
    """Return the discovery of a run: None for a local one, else by `discovery_type`.

    PRIMUS reads the cluster from `tf_config`, and sets `server_type` and `index` of the run. CONSUL looks under the
    name `psm`, MLP in the environment, ZK at `zk_server` under `deep_insight_name`.
    """
    if runner_conf.is_local:
        return None
    kind = runner_conf.discovery_type
    if kind is ServiceDiscoveryType.PRIMUS:
        found = TfConfigServiceDiscovery(_tf_config(runner_conf.tf_config))
        runner_conf.server_type, runner_conf.index = found.server_type, found.index
        return found
    if kind is ServiceDiscoveryType.MLP:
        return MLPServiceDiscovery()
    # The others need optional packages.
    if kind is ServiceDiscoveryType.CONSUL:
        module = import_module("monolith.cluster.discovery.consul.consul_discovery")
        consul: ServiceDiscovery = module.ConsulServiceDiscovery(psm or "")
        return consul
    if not runner_conf.deep_insight_name:
        raise ValueError("discovery_type=zk finds the job by its name: set deep_insight_name")
    module = import_module("monolith.cluster.discovery.zookeeper.zk_discovery")
    zookeeper: ServiceDiscovery = module.ZKServiceDiscovery(runner_conf.deep_insight_name, runner_conf.zk_server)
    return zookeeper


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


def _tf_config(text: str | None) -> dict[str, object]:
    if not text:
        raise ValueError("discovery_type=primus reads the cluster from tf_config, which is empty; pass it as JSON")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"tf_config is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"tf_config must be a JSON object, got {text!r}")
    return value
