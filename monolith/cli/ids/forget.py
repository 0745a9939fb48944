"""`monolith forget`: ids out of a run, its files, its exports and its servers."""

import json
from collections import Counter
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from monolith.cli.console import console
from monolith.cli.tls import TlsCa, TlsCert, TlsKey, tls_config

if TYPE_CHECKING:
    from monolith.train.forget import ForgetReport

EVENTS = (
    "Events are not rewritten: ids that are still in the source come back if they are trained on again. "
    "Remove them there, too."
)


def forget(
    model_dir: Annotated[Path, typer.Argument(help="Folder of the model.")],
    table: Annotated[str | None, typer.Option(help="Name of the table, or of a feature.")] = None,
    feature: Annotated[str | None, typer.Option(help="The same as --table.")] = None,
    id_: Annotated[list[int] | None, typer.Option("--id", help="An id to forget; repeat it for several.")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="A text to forget, where the column is of type hash; repeat it.")
    ] = None,
    ids: Annotated[Path | None, typer.Option(help="File of ids to forget, one per line.")] = None,
    texts: Annotated[Path | None, typer.Option(help="File of texts to forget, one per line.")] = None,
    slot: Annotated[int | None, typer.Option(help="Ids are numbers inside this slot, of a table of fids.")] = None,
    export_base: Annotated[
        list[Path] | None, typer.Option(help="Folder of exported versions outside MODEL_DIR; repeat it.")
    ] = None,
    server: Annotated[
        list[str] | None,
        typer.Option(help="Sync address of a server that is to forget at once, or files:DIR of shards; repeat it."),
    ] = None,
    mirror: Annotated[str | None, typer.Option(help="The run's mirror_dir, which gets new copies.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say where the ids are, and change nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that a run may take for its part.", min=1.0)] = 600.0,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Remove ids from a run's tables and filters, from every snapshot, delta and export, and from servers.

    A run that trains in MODEL_DIR forgets first; it listens if it is a job, or was started with --enable-controller.
    Without one, the files are enough. The status is 1 if something may be left; the report says what.
    """
    name = table or feature
    if name is None:
        raise ValueError("say which table the ids are of: --table, or --feature")
    if not model_dir.is_dir():
        raise FileNotFoundError(f"there is no folder {model_dir}; name the model_dir of a run")
    package = import_module("monolith.train.forget")
    numbers = [*(id_ or ()), *(_number(line, ids) for line in _lines(ids))]
    wanted = [*(text or ()), *_lines(texts)]
    targets = import_module("monolith.train.forget.targets").make_targets(model_dir, name, numbers, wanted, slot)
    places = package.ForgetPlaces(
        export_bases=export_base or (),
        servers=server or (),
        mirror=mirror,
        tls=tls_config(tls_cert, tls_key, tls_ca),
        timeout_seconds=timeout,
    )
    with import_module("monolith.cli.ckpt.progress").progress_bar() as progress:
        report = package.forget(model_dir, targets, places, dry_run=dry_run, on_progress=progress)
    if as_json:
        typer.echo(json.dumps({**asdict(report), "dry_run": dry_run, "events": EVENTS}))
    else:
        _show(report, dry_run=dry_run)
    if report.left and not dry_run:
        raise typer.Exit(1)


def _show(report: "ForgetReport", *, dry_run: bool) -> None:
    num_ids = len({id_ for ids in report.targets.values() for id_ in ids})
    known = {id_ for one in report.found for id_ in one.ids}
    places = {one.place for one in report.found}
    _say(f"{len(known)} of {num_ids} ids {'are' if dry_run else 'were'} in {len(places)} places")
    for place in sorted(places):
        kinds: Counter[str] = Counter()
        for one in report.found:
            if one.place == place:
                kinds[f"{one.kind} in {one.table}"] += len(one.ids)
        _say(f"  {place}: " + ", ".join(_counted(count, kind) for kind, count in kinds.items()))
    if not dry_run:
        _say(f"rewritten: {len(report.rewritten)} folders and files")
    for left in report.left:
        _say(f"left: {left.place}: {left.reason}")
    if any(one.kind == "count" for one in report.found):
        _say(
            "Counts: a filter's cell has 12 bits of an id's hash. Ids that cannot be told from these lost theirs, too; "
            "cells stay in use, under random bits, until the filter drops them."
        )
    _say(EVENTS)


def _counted(count: int, kind: str) -> str:
    word, _, rest = kind.partition(" in ")
    return f"{count} {word}{'s' if count != 1 else ''} in {rest}"


def _lines(path: Path | None) -> list[str]:
    return [] if path is None else [line.strip() for line in path.read_text().splitlines() if line.strip()]


def _number(line: str, path: Any) -> int:
    try:
        return int(line)
    except ValueError:
        raise ValueError(f"{path} must have one id per line, a 64-bit integer, got {line!r}") from None


def _say(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False, highlight=False)
