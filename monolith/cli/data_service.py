"""`monolith data-service`: processes that read and parse data for trainers."""

import json
import logging
import signal
import sys
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.table import Table

from monolith.cli.console import console
from monolith.cli.tls import TlsCa, TlsCert, TlsKey, tls_config

data_service = typer.Typer(
    name="data-service",
    help=(
        "Read and parse data in processes of their own. One dispatcher gives out splits of an input, any number of "
        "workers read them, and trainers pull the batches: "
        "monolith.data_service.ServiceSource(ADDRESS, trainer=NAME). Every record goes to exactly one trainer per "
        "round, also when workers or the dispatcher are killed and started again."
    ),
    short_help="Read and parse data for trainers in other processes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ReadyFile = Annotated[
    Path | None, typer.Option("--ready-file", help="File to write, as JSON with the address, when it answers.")
]
DispatcherAddress = Annotated[
    str, typer.Option("--dispatcher", help="Address of the dispatcher: HOST:PORT or unix:/PATH.")
]


@data_service.command("dispatcher", short_help="Give out the splits of an input.")
def run_dispatcher(
    input_name: Annotated[
        str, typer.Option("--input", help="What to read: MODULE:CALLABLE, a function without arguments of your code.")
    ],
    num_splits: Annotated[
        int, typer.Option(help="Parts to cut it into, each read by one worker; several per trainer.", min=1)
    ],
    state: Annotated[Path, typer.Option(help="Folder for its memory; started with it again, it goes on.")],
    address: Annotated[str, typer.Option(help="Where to listen; port 0 picks a free one.")] = "127.0.0.1:7100",
    lease_seconds: Annotated[
        float, typer.Option(help="A trainer silent for so long may lose its splits; longer than its restart takes.")
    ] = 60.0,
    worker_timeout_seconds: Annotated[
        float, typer.Option(help="A worker silent for so long is taken for dead.")
    ] = 10.0,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen to other machines without TLS.")] = False,
    ready_file: ReadyFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Give out the splits of an input until Ctrl-C. It imports nothing of yours; the workers do.

    Example: monolith data-service dispatcher --input my_job.data:make_source --num-splits 16 --state run/dispatcher
    """
    _stop_on_sigterm()
    service = _service()
    config = service.DispatcherConfig(
        input=input_name,
        num_splits=num_splits,
        state_path=str(state),
        address=address,
        lease_seconds=lease_seconds,
        worker_timeout_seconds=worker_timeout_seconds,
        insecure=insecure,
        tls=tls_config(tls_cert, tls_key, tls_ca),
    )
    try:
        with service.Dispatcher(config) as dispatcher:
            _announce(f"{input_name} in {num_splits} splits", dispatcher.address, ready_file)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        return


@data_service.command("worker", short_help="Read splits for trainers.")
def run_worker(
    dispatcher: DispatcherAddress,
    address: Annotated[
        str, typer.Option(help="Where to listen for trainers; port 0 picks a free one.")
    ] = "127.0.0.1:0",
    advertise: Annotated[
        str | None, typer.Option(help="Host under which trainers reach it, if not that of --address.")
    ] = None,
    input_name: Annotated[
        str | None, typer.Option("--input", help="Refuse to read anything else than this MODULE:CALLABLE.")
    ] = None,
    app_dir: Annotated[Path, typer.Option(help="Folder that the input's module is imported from.")] = Path("."),
    prefetch: Annotated[int, typer.Option(help="Batches to read ahead, per split.", min=1)] = 8,
    patience_seconds: Annotated[
        float, typer.Option(help="End with an error if the dispatcher cannot be reached for so long.")
    ] = 60.0,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen to other machines without TLS.")] = False,
    ready_file: ReadyFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Read splits for trainers until Ctrl-C. It keeps nothing: start and stop as many as you like, at any time.

    It imports and runs the input that the dispatcher names: trust that one, or say --input.
    """
    _stop_on_sigterm()
    sys.path.insert(0, str(app_dir.resolve()))
    service = _service()
    config = service.DataWorkerConfig(
        dispatcher=dispatcher,
        address=address,
        advertise=advertise,
        input=input_name,
        prefetch_batches=prefetch,
        patience_seconds=patience_seconds,
        insecure=insecure,
        tls=tls_config(tls_cert, tls_key, tls_ca),
    )
    try:
        with service.DataWorker(config) as worker:
            _announce(f"{worker.input} for {dispatcher}", worker.address, ready_file)
            worker.wait()
    except KeyboardInterrupt:
        return


@data_service.command("status", short_help="Show splits, workers and trainers.")
def show_status(
    dispatcher: DispatcherAddress,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    timeout_seconds: Annotated[float, typer.Option(help="Give up after so long.")] = 10.0,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Show the splits of each round with trainer, worker and progress, and who is alive."""
    tls = tls_config(tls_cert, tls_key, tls_ca)
    status = _service().service_status(dispatcher, timeout_seconds=timeout_seconds, tls=tls)
    if as_json:
        typer.echo(json.dumps(status))
        return
    console.print(f"{status['input']} in {status['num_splits']} splits", highlight=False, markup=False)
    for round, splits in sorted(status["rounds"].items(), key=lambda item: int(item[0])):
        console.print(_split_table(round, splits))
    console.print(_process_table(status))


def _split_table(round: str, splits: list[dict[str, Any]]) -> Table:
    num_done = sum(split["done"] for split in splits)
    table = Table("split", "trainer", "worker", "batches", "", title=f"Round {round}: {num_done}/{len(splits)} done")
    for number, split in enumerate(splits):
        progress = "done" if split["done"] else "" if split["owner"] is None else "in progress"
        owner, worker = split["owner"] or "", split["worker"] or ""
        table.add_row(str(number), owner, worker, str(split["num_batches"]), progress)
    return table


def _process_table(status: dict[str, Any]) -> Table:
    table = Table("process", "name", "")
    for address, worker in sorted(status["workers"].items()):
        words = f"last seen {worker['silent_seconds']:.1f} s ago, reading {worker['num_streams']} splits"
        table.add_row("worker", address, words)
    for name, trainer in sorted(status["trainers"].items()):
        table.add_row("trainer", name, "has its lease" if trainer["lease"] else "lease ran out")
    return table


def _announce(what: str, address: str, ready_file: Path | None) -> None:
    if ready_file is not None:
        write = import_module("monolith.data.event_log.folder").write_in_one_piece
        write(ready_file, json.dumps({"address": address}).encode())
    # soft_wrap and no markup: a script may read the line.
    console.print(f"Serving {what} at {address}. Ctrl-C ends it.", soft_wrap=True, markup=False, highlight=False)


def _stop_on_sigterm() -> None:
    """Let SIGTERM end the process as Ctrl-C does."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _service() -> Any:
    """Return the data service, which loads torch: `--help` must not wait for it."""
    return import_module("monolith.data_service")
