"""`monolith info`: what this installation is made of, and how to get what it lacks."""

import json
import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from rich.table import Table

from monolith.cli.console import console
from monolith.version import __version__

# extra -> the distribution whose presence shows that the extra is installed
OPTIONAL_PARTS = {
    "columnar": "pyarrow",
    "kafka": "confluent-kafka",
    "ray": "ray",
    "faiss": "faiss-cpu",
    "zookeeper": "kazoo",
    "consul": "py-consul",
    "primus": "grpcio",
    "serving": "onnxruntime",
    "tensorboard": "tensorboard",
}


def found_version(distribution: str) -> str | None:
    """Return the version of an installed distribution, without importing it; None if it is not there.

    >>> found_version("no-such-distribution") is None
    True
    """
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def gpu_names(torch: Any) -> list[str]:
    """Return the name of each GPU that torch can use."""
    return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]


def build_facts() -> dict[str, str]:
    """Return what this build is and what it runs on, ready to print."""
    # Loaded here: `--help` must not wait for them.
    torch, native = import_module("torch"), import_module("monolith._core.native")
    gpus = gpu_names(torch)
    return {
        "monolith": __version__,
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "simd": f"{native.simd_level()} (best here: {native.best_simd_level()})",
        "threads": str(native.num_threads()),
        "torch": torch.__version__,
        "gpu": ", ".join(gpus) if gpus else "none that torch can use",
    }


def optional_parts() -> dict[str, str]:
    """Return, for each optional part, the version found or the command that installs it."""
    parts = {}
    for extra, distribution in OPTIONAL_PARTS.items():
        found = found_version(distribution)
        parts[extra] = f"{distribution} {found}" if found else f"pip install 'monolith-recsys[{extra}]'"
    return parts


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Show the build, the processor, torch, the GPU, and each optional part or how to get it."""
    facts, parts = build_facts(), optional_parts()
    if as_json:
        typer.echo(json.dumps({"build": facts, "optional": parts}))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, value)
    table.add_section()
    for name, value in parts.items():
        # A bracket in a pip command is no markup.
        table.add_row(name, value.replace("[", r"\["))
    console.print(table)
