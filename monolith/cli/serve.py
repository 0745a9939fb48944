"""`monolith serve`: answer predictions over HTTP from an export, and follow the trainer."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolith.cli.console import console
from monolith.cli.tls import tls_config

if TYPE_CHECKING:
    from monolith.serving.server import Ready


def serve(
    export_base: Annotated[Path, typer.Argument(help="Folder of exported versions; the newest complete one serves.")],
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets other machines ask.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = 8500,
    sync_address: Annotated[
        str | None, typer.Option(help="Where to take deltas from a trainer: HOST:PORT or unix:/PATH.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the first version rather than fail.")] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="File to write, as JSON, when the server is about to answer.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads that share the work of one request.", min=1)] = 1,
    max_body_bytes: Annotated[int, typer.Option(help="Largest request, also when unpacked.", min=1)] = 4 << 20,
    max_connections: Annotated[int, typer.Option(help="Connections at a time.", min=1)] = 512,
    request_seconds: Annotated[
        float,
        typer.Option(
            help="How long a client may take to send its headers, to send its body, and to read its answer.", min=0.1
        ),
    ] = 30.0,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate for the sync address (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    tls_ca: Annotated[Path | None, typer.Option(help="Authority that the trainer's certificate must have.")] = None,
) -> None:
    """Serve the newest export over HTTP until Ctrl-C: Open Inference Protocol v2, TF-Serving's form, /metrics."""
    server = _server_module()
    config = server.ServerConfig(
        export_base=export_base,
        host=host,
        port=port,
        sync_address=sync_address,
        tls=tls_config(tls_cert, tls_key, tls_ca),
        ready_file=ready_file,
        wait=wait,
        num_threads=threads,
        max_body_bytes=max_body_bytes,
        limits=server.ConnectionLimits(max_connections=max_connections, request_seconds=request_seconds),
    )
    server.serve(config, announce=_announce)


def _server_module() -> Any:
    """Return the server, which needs packages that not everybody installs."""
    try:
        return import_module("monolith.serving.server")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "monolith":
            raise
        raise ImportError(
            f"serving needs the package {error.name!r}, which is not installed: pip install 'monolith-recsys[serving]'"
        ) from error


def _announce(ready: "Ready") -> None:
    # soft_wrap and no markup: a script may read the line.
    line = f"Serving {ready.model} version {ready.version} at {ready.url}/v2/models/{ready.model}/infer"
    if ready.sync_address is not None:
        line += f", deltas at {ready.sync_address}"
    console.print(f"{line}. Ctrl-C ends it.", soft_wrap=True, markup=False, highlight=False)
