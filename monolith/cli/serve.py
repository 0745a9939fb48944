"""`monolith serve`: answer predictions over HTTP from an export, and follow the trainer."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from monolith.cli.console import console
from monolith.cli.serving.packages import serving_module
from monolith.cli.tls import tls_config

if TYPE_CHECKING:
    from monolith.serving.ready import Ready

_RPC_DEADLINE_MILLIS: Final = 1000


def serve(
    export_base: Annotated[
        Path | None,
        typer.Argument(help="Folder of exported versions; the newest complete one serves.", show_default=False),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=BASE", help="Serve the versions in BASE as NAME; repeat it for several models."),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]VERSION", help="Serve this version of a model, whatever comes after it; repeat it."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets other machines ask.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)] = 8500,
    sync_address: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]ADDRESS",
            help="Where to take deltas from a model's trainer: HOST:PORT or unix:/PATH; repeat it.",
        ),
    ] = None,
    shards: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]SPEC",
            help="Read rows from processes of `monolith serve-shard`, found by files:DIR, zk:HOST:PORT/NAME, "
            "consul:NAME, agents:HOST:PORT/BZID/MODEL or static:ps_0=HOST:PORT,HOST:PORT;ps_1=...; repeat it.",
        ),
    ] = None,
    rpc_deadline_millis: Annotated[
        int, typer.Option(help="With --shards: how long all shards may take to answer for one batch.", min=1)
    ] = _RPC_DEADLINE_MILLIS,
    hedge_millis: Annotated[
        float | None,
        typer.Option(
            help="With --shards: ask another replica of a shard too if one is silent for this long; 0 never does. "
            "Without it: twice what answers usually take.",
            min=0,
        ),
    ] = None,
    require_rows: Annotated[
        bool, typer.Option("--require-rows", help="With --shards: answer 503 if a shard is away, not with zeros.")
    ] = False,
    entry_index: Annotated[
        int, typer.Option(help="With --shards: number of this entry among all, to register its --sync-address.", min=0)
    ] = 0,
    workers: Annotated[
        int, typer.Option(help="Processes that answer; beside them one has the rows. 0: one process does all.", min=0)
    ] = 0,
    worker_folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
    worker_name: Annotated[str | None, typer.Option(hidden=True)] = None,
    worker_socket: Annotated[int | None, typer.Option(hidden=True)] = None,
    worker_pipe: Annotated[int | None, typer.Option(hidden=True)] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the first version, and for shards, rather than fail.")
    ] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="File to write, as JSON, when the server is about to answer.")
    ] = None,
    poll_seconds: Annotated[
        float, typer.Option(help="How often to look for new versions; 0 never looks.", min=0)
    ] = 1.0,
    keep_versions: Annotated[
        int, typer.Option(help="Versions of each model in memory; older ones answer requests that name them.", min=1)
    ] = 1,
    allow_control: Annotated[
        bool, typer.Option("--allow-control", help="Let clients load, pin and unload versions.")
    ] = False,
    drain_seconds: Annotated[
        float, typer.Option(help="After SIGTERM, how long to go on answering while not ready any more.", min=0)
    ] = 0.0,
    stop_seconds: Annotated[float, typer.Option(help="Then, how long requests under way may take.", min=0)] = 5.0,
    threads: Annotated[int, typer.Option(help="Threads that share the work of one request.", min=1)] = 1,
    max_body_bytes: Annotated[int, typer.Option(help="Largest request, also when unpacked.", min=1)] = 4 << 20,
    max_batch: Annotated[
        int | None, typer.Option(help="Most examples of one request, and of requests predicted together.", min=1)
    ] = None,
    max_connections: Annotated[int, typer.Option(help="Connections at a time.", min=1)] = 512,
    request_seconds: Annotated[
        float,
        typer.Option(
            help="How long a client may take to send its headers, to send its body, and to read its answer.", min=0.1
        ),
    ] = 30.0,
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with one token per line; clients must send one of them. Read again when it changes."),
    ] = None,
    https_cert: Annotated[Path | None, typer.Option(help="Certificate for HTTPS (PEM); without it, HTTP.")] = None,
    https_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    https_client_ca: Annotated[
        Path | None,
        typer.Option(help="Authority that certificates of HTTPS clients must have; without it, any client."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate for the sync address (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    tls_ca: Annotated[Path | None, typer.Option(help="Authority that the trainer's certificate must have.")] = None,
) -> None:
    """Serve the newest export over HTTP until Ctrl-C: Open Inference Protocol v2, TF-Serving's form, /metrics."""
    bases: dict[str | None, Path] = {} if export_base is None else {None: export_base}
    for text in model or ():
        name, equals, base = text.partition("=")
        if not name or not equals or not base:
            raise ValueError(f"--model must be NAME=BASE, got {text!r}")
        if name in bases:
            raise ValueError(f"--model {name}=... is given twice; each model needs a name of its own")
        bases[name] = Path(base)
    if not bases:
        raise ValueError(
            "`monolith serve` needs EXPORT_BASE (folder of exported versions) or --model NAME=BASE; "
            "`monolith serve --help` shows how"
        )
    pins = _by_model("--pin", pin or (), bases)
    addresses = _by_model("--sync-address", sync_address or (), bases)
    spread = _by_model("--shards", shards or (), bases)
    if not spread:
        _refuse_for_entries(
            {
                "--rpc-deadline-millis": rpc_deadline_millis != _RPC_DEADLINE_MILLIS,
                "--hedge-millis": hedge_millis is not None,
                "--require-rows": require_rows,
                "--entry-index": entry_index != 0,
            }
        )
    server = serving_module("monolith.serving.server")
    config = server.ServerConfig(
        models=tuple(
            server.ModelConfig(
                base=base,
                name=name,
                version=_version(pins.get(name)),
                sync_address=addresses.get(name),
                shards=spread.get(name),
            )
            for name, base in bases.items()
        ),
        host=host,
        port=port,
        tls=tls_config(tls_cert, tls_key, tls_ca),
        https=_https(server, https_cert, https_key, https_client_ca),
        token_file=token_file,
        ready_file=ready_file,
        wait=wait,
        num_threads=threads,
        max_body_bytes=max_body_bytes,
        max_batch=max_batch,
        limits=server.ConnectionLimits(max_connections=max_connections, request_seconds=request_seconds),
        poll_seconds=poll_seconds,
        num_kept_versions=keep_versions,
        allow_control=allow_control,
        drain_seconds=drain_seconds,
        stop_seconds=stop_seconds,
        entry=server.EntryConfig(
            deadline_seconds=rpc_deadline_millis / 1000,
            hedge_seconds=None if hedge_millis is None else hedge_millis / 1000,
            require_rows=require_rows,
            index=entry_index,
        ),
    )
    if workers:
        by_workers = serving_module("monolith.cli.serving.workers")
        worker = by_workers.WorkerPlace(folder=worker_folder, name=worker_name, socket=worker_socket, pipe=worker_pipe)
        by_workers.serve_by_workers(config, workers, worker, announce=_announce)
        return
    server.serve(config, announce=_announce)


def _refuse_for_entries(is_given: Mapping[str, bool]) -> None:
    """Raise a ValueError if one of these options is given: they are for entries, which read rows elsewhere."""
    given = ", ".join(option for option, is_there in is_given.items() if is_there)
    if given:
        raise ValueError(f"without --shards the rows are in this process, so {given} would do nothing; leave it out")


def _by_model(option: str, values: Sequence[str], bases: Collection[str | None]) -> dict[str | None, str]:
    """Return the value of an option for each model: NAME=VALUE, or VALUE alone if there is one model."""
    found: dict[str | None, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if equals and name in bases:
            key: str | None = name
        elif len(bases) == 1:
            (key,), value = bases, text
        elif None in bases and not equals:
            key, value = None, text
        else:
            names = ", ".join(one for one in bases if one is not None)
            raise ValueError(f"{option} {text!r} does not say for which model; write NAME=VALUE, NAME one of {names}")
        if key in found:
            raise ValueError(f"{option} is given twice for {'the model' if key is None else key}")
        found[key] = value
    return found


def _version(text: str | None) -> int | None:
    if text is not None and not (text.isascii() and text.isdecimal()):
        raise ValueError(f"--pin must be the number of a version, got {text!r}")
    return None if text is None else int(text)


def _https(server: Any, cert: Path | None, key: Path | None, client_ca: Path | None) -> Any:
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        raise ValueError("HTTPS needs both --https-cert and --https-key; --https-client-ca alone does nothing")
    authority = None if client_ca is None else str(client_ca)
    return server.HttpsConfig(cert_path=str(cert), key_path=str(key), client_ca_path=authority)


def _announce(ready: "Ready") -> None:
    # soft_wrap and no markup: a script may read the lines.
    for number, model in enumerate(ready.models):
        line = f"Serving {model.name} version {model.version} at {ready.url}/v2/models/{model.name}/infer"
        if model.sync_address is not None:
            line += f", deltas at {model.sync_address}"
        end = ". Ctrl-C ends it." if number + 1 == len(ready.models) else "."
        console.print(f"{line}{end}", soft_wrap=True, markup=False, highlight=False)
