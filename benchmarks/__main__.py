"""The command `python -m benchmarks`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.registry import BENCHMARKS, Size, run
from benchmarks.report import json_line, show
from monolith._core import native


def main(
    name: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(BENCHMARKS)}; without it they are listed.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: a first look, not a result.")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="Tiny sizes: seconds, to see that all of it runs.")] = False,
    simd: Annotated[
        str | None, typer.Option("--simd", help="Hold our kernels to scalar, avx2 or avx512; peers keep theirs.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the JSON line to this file.")] = None,
) -> None:
    """Measure Monolith against peers and bounds; prints a table and, last, one JSON line."""
    console = Console()
    if name is None:
        listing = Table("name", "what it measures", title="python -m benchmarks NAME")
        for benchmark, summary in BENCHMARKS.items():
            listing.add_row(benchmark, summary)
        console.print(listing)
        return
    if name not in BENCHMARKS:
        raise typer.BadParameter(f"unknown benchmark {name!r}; choose one of {', '.join(sorted(BENCHMARKS))}")
    if quick and smoke:
        raise typer.BadParameter("--quick and --smoke are two sizes; choose one")
    if simd is not None:
        try:
            native.set_simd_level(simd)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--simd") from error
    size: Size = "smoke" if smoke else "quick" if quick else "full"
    stages = Console(stderr=True)
    report = run(name, size=size, progress=lambda stage: stages.print(stage, style="dim", highlight=False))
    show(report, console)
    line = json_line(report)
    if out is not None:
        out.write_text(line + "\n", encoding="utf-8")
    typer.echo(line)


if __name__ == "__main__":
    typer.run(main)
