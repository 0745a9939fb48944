"""`monolith serve-shard`: the rows of one shard of an export, for entries to read."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monolith.cli.console import console
from monolith.cli.serving.packages import serving_module
from monolith.cli.tls import TlsCa, TlsCert, TlsKey, tls_config

if TYPE_CHECKING:
    from monolith.serving.shards.shard_server import ReadyShard


def serve_shard(
    export_base: Annotated[Path, typer.Argument(help="Folder of versions of the layout 'distributed'.")],
    shard: Annotated[int, typer.Option(help="Whose rows to serve, counted from 0.", min=0)],
    listen: Annotated[
        str, typer.Option(help="Where entries read rows and trainers send deltas: HOST:PORT or unix:/PATH.")
    ] = "127.0.0.1:0",
    discovery: Annotated[
        str | None,
        typer.Option(
            help="Where to register: files:DIR, zk:HOST:PORT/NAME, consul:NAME, agents:HOST:PORT/BZID/MODEL or "
            "static:ps_0=HOST:PORT."
        ),
    ] = None,
    replica: Annotated[
        int, typer.Option(help="Number of this replica among those of its shard, for --discovery.", min=0)
    ] = 0,
    pin: Annotated[int | None, typer.Option(help="Serve this version, whatever comes after it.", min=0)] = None,
    host: Annotated[str, typer.Option(help="Where /v2/health and /metrics listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Their port; 0 picks a free one.", min=0, max=65535)] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the first version rather than fail.")] = False,
    ready_file: Annotated[Path | None, typer.Option(help="File to write, as JSON, when rows can be read.")] = None,
    poll_seconds: Annotated[
        float, typer.Option(help="How often to look for new versions; 0 never looks.", min=0)
    ] = 1.0,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Serve the rows of one shard until Ctrl-C: entries (`monolith serve --shards`) read them, trainers change them."""
    server = serving_module("monolith.serving.shards.shard_server")
    config = server.ShardConfig(
        export_base=export_base,
        shard=shard,
        listen=listen,
        discovery=discovery,
        replica=replica,
        version=pin,
        host=host,
        port=port,
        wait=wait,
        ready_file=ready_file,
        poll_seconds=poll_seconds,
        tls=tls_config(tls_cert, tls_key, tls_ca),
    )
    server.serve_shard(config, announce=_announce)


def _announce(ready: "ReadyShard") -> None:
    line = (
        f"Serving shard {ready.shard} of {ready.num_shards} of {ready.model} version {ready.version} at "
        f"{ready.address}, health at http://{ready.host}:{ready.port}. Ctrl-C ends it."
    )
    console.print(line, soft_wrap=True, markup=False, highlight=False)
