"""The sub-commands of `monolith agent`."""

import json
import signal
import socket
import threading
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from monolith.cli.tls import TlsCa, TlsCert, TlsKey, tls_config

agent = typer.Typer(
    name="agent",
    help="Serve what is published in ZooKeeper; publish it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ZkServers = Annotated[str, typer.Option(help="ZooKeeper servers, HOST:PORT, several by comma.")]
Bzid = Annotated[str, typer.Option(help="First part of all paths in ZooKeeper.")]
Layout = Annotated[str, typer.Option(help="Name of the group of agents.")]
Pattern = Annotated[
    str, typer.Argument(metavar="MODEL:SUB_GRAPH", help="What to serve, such as movie:entry or movie:*.")
]


@agent.command()
def run(
    zk_servers: ZkServers,
    layout: Layout,
    bzid: Bzid = "monolith",
    host: Annotated[str, typer.Option(help="Where its servers listen; 0.0.0.0 is all networks.")] = "127.0.0.1",
    replica: Annotated[
        int, typer.Option(help="Number of this agent; no other that serves the same parts has it.", min=0)
    ] = 0,
    shard_id: Annotated[
        int, typer.Option(help="Of the published ps_i, serve those where i % NUM_SHARDS is this.", min=0)
    ] = 0,
    num_shards: Annotated[int, typer.Option(help="Groups of agents that share out ps_i; 1 serves all.", min=1)] = 1,
    cluster: Annotated[str, typer.Option(help="Name of the cluster that it runs in.")] = "default",
    container: Annotated[str | None, typer.Option(help="Name of this container; by default that of the host.")] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(help="Answer the original's AgentService at this port, to this machine; 0 picks one.", min=0),
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two looks at ZooKeeper.", min=0.05)] = 1.0,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Serve what is published for a layout, register the servers, and start those again that end; until Ctrl-C."""
    records = import_module("monolith.cluster.serving.records")
    config = import_module("monolith.launch.agent.agent_config").AgentConfig(
        layout=layout,
        container=records.Container(cluster, container or socket.gethostname()),
        replica=replica,
        shard_id=shard_id,
        num_shards=num_shards,
        host=host,
        tls=tls_config(tls_cert, tls_key, tls_ca),
        interval_seconds=interval,
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with ExitStack() as cleanup:
        registry = cleanup.enter_context(_registry(zk_servers, bzid))
        service = None if grpc_port is None else _service(registry, config, grpc_port, cleanup)
        said = "" if service is None else f" AgentService at {service}."
        typer.echo(f"Serving what is published for {layout} in {zk_servers}/{bzid}.{said} Ctrl-C ends it.")
        import_module("monolith.launch.agent.agent").Agent(registry, config, service=service).run(stop)


def _service(registry: Any, config: Any, port: int, cleanup: ExitStack) -> str:
    """Start the agent's service, until `cleanup` ends it; return where it answers."""
    # First: it needs an optional package, and says so before anything is started.
    module = import_module("monolith.launch.agent.agent_service")
    watcher = import_module("monolith.cluster.serving.replica_watcher").ReplicaWatcher
    followed = cleanup.enter_context(watcher(registry.zk_servers, registry.bzid))
    return str(cleanup.enter_context(module.AgentService(followed, config, port=port)).address)


@agent.command()
def declare(
    export_base: Annotated[Path, typer.Argument(help="Folder of exported versions.")],
    zk_servers: ZkServers,
    bzid: Bzid = "monolith",
    model_name: Annotated[str | None, typer.Option(help="Its name; by default that of its newest version.")] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Declare the entry alone: its servers hold the rows of all shards.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Declare it anew.")] = False,
) -> None:
    """Say where the parts of a model are."""
    records = import_module("monolith.cluster.serving.records")
    versions = import_module("monolith.export.versions")
    newest = import_module("monolith.export.description").Description.read(versions.newest_export(export_base))
    name, base = model_name or newest.name, str(export_base.resolve())
    shards = [] if whole else [versions.shard_folder(shard) for shard in range(len(newest.shards))]
    with _registry(zk_servers, bzid) as registry:
        policies = {"entry": "latest", **dict.fromkeys(shards, "latest_once")}
        configs = {
            records.SavedModel(name, part): records.SavedModelDeployConfig(model_base_path=base, version_policy=policy)
            for part, policy in policies.items()
        }
        registry.declare(name, configs, overwrite=overwrite)
        for model in configs:
            typer.echo(f"declared {model} in {base}")


@agent.command()
def publish(model: Pattern, zk_servers: ZkServers, layout: Layout, bzid: Bzid = "monolith") -> None:
    """Let the agents of a layout serve a declared model."""
    with _registry(zk_servers, bzid) as registry:
        for one in registry.publish(layout, model):
            typer.echo(f"published {one} for {layout}")


@agent.command()
def unpublish(model: Pattern, zk_servers: ZkServers, layout: Layout, bzid: Bzid = "monolith") -> None:
    """Let the agents of a layout serve a model no longer."""
    with _registry(zk_servers, bzid) as registry:
        for one in registry.unpublish(layout, model):
            typer.echo(f"{one} is not published for {layout} any more")


@agent.command()
def info(zk_servers: ZkServers, bzid: Bzid = "monolith") -> None:
    """Print what is declared, published and served, as one JSON object."""
    with _registry(zk_servers, bzid) as registry:
        typer.echo(json.dumps(registry.info(), indent=1))


def _registry(zk_servers: str, bzid: str) -> Any:
    return import_module("monolith.cluster.serving.registry").ServingRegistry(zk_servers, bzid)
