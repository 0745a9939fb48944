"""`monolith status`: how a job is."""

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid

from monolith.cli.console import console
from monolith.cli.tls import TlsCa, TlsCert, TlsKey, tls_config

_FIGURES = {
    "global_step": "step",
    "steps_per_second": "steps/s",
    "staleness": "staleness",
    "queue": "queue",
    "retries": "retries",
    "joins": "joins",
}
_ONLY_IN_JSON = ("events_per_second",)
"""A table with these would be wider than a terminal."""


def status(
    model_dir: Annotated[Path, typer.Argument(help="Folder of a job that runs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.", min=0.1)] = 5.0,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Show how a job of several processes is: its workers, its parameter servers, and the newest snapshot.

    A job with TLS is asked with its certificates: give the same --tls flags.
    """
    tls = tls_config(tls_cert, tls_key, tls_ca)
    found = import_module("monolith.train.job.status").job_status(model_dir, tls=tls, timeout_seconds=timeout)
    if as_json:
        typer.echo(json.dumps(found))
        return
    saved = "none" if found.get("saved_step") is None else f"of step {found['saved_step']:,}"
    line = f"generation {found['generation']}, step {found['global_step']:,}, newest snapshot {saved}"
    line += f", workers paused {found.get('pause_ms', 0.0):g} ms for it"
    console.print(line, highlight=False)
    if wanted := found.get("scaling_to"):
        console.print(f"stops for num_ps={wanted['num_ps']} and num_workers={wanted['num_workers']}", highlight=False)
    console.print(_workers(found["workers"]))
    console.print(_servers(found["servers"]))


def _workers(workers: list[dict[str, Any]]) -> Grid:
    """Show every figure that a worker reports; those that are not known here go by their own names."""
    known = ("index", "state", *_FIGURES, *_ONLY_IN_JSON)
    others = {key: key.replace("_", " ") for one in workers for key in one if key not in known}
    figures = _FIGURES | others
    grid = Grid("worker", "state", *figures.values())
    for one in workers:
        name = "chief" if one["index"] == 0 else f"worker {one['index']}"
        grid.add_row(name, str(one.get("state", "")), *(str(one.get(key, "")) for key in figures))
    return grid


def _servers(servers: list[dict[str, Any]]) -> Grid:
    grid = Grid()
    for name in ("server", "address", "state", "health", "rows", "MB", "process MB"):
        grid.add_column(name, overflow="fold")  # an address that is cut off is of no use
    for index, one in enumerate(servers):
        rows, used = sum(one.get("num_rows", {}).values()), sum(one.get("bytes", {}).values())
        health, process = _health(one.get("health"))
        grid.add_row(f"ps {index}", one["address"], one["state"], health, f"{rows:,}", f"{used / 1e6:,.1f}", process)
    return grid


def _health(said: dict[str, Any] | None) -> tuple[str, str]:
    """Return how a parameter server is, and the memory of its process, with its limit if there is one."""
    if not said:  # it is lost
        return "", ""
    limit = said["memory_limit_bytes"]
    process = f"{said['memory_bytes'] / 1e6:,.1f}" + ("" if limit is None else f" of {limit / 1e6:,.1f}")
    return said["status"].replace("_", " ").lower(), process
