"""`monolith scale`: another number of processes for a job that runs."""

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from monolith.cli.tls import TlsCa, TlsCert, TlsKey, tls_config


def scale(
    model_dir: Annotated[Path, typer.Argument(help="Folder of a job that runs.")],
    num_ps: Annotated[
        int | None, typer.Option(help="Parameter servers from now on; as many as now if not given.")
    ] = None,
    num_workers: Annotated[int | None, typer.Option(help="Workers from now on; as many as now if not given.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until the job goes on.", min=1.0)] = 600.0,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
) -> None:
    """Let a job go on with other numbers of parameter servers and workers, through a snapshot, without a lost event.

    All processes stop at a snapshot. `monolith launch`, here or on Ray, starts them again in the new shape. With
    another scheduler, the chief ends with status 3, and all processes are to be started with the new numbers.

    A job with TLS is asked with its certificates: give the same --tls flags.
    """
    if num_ps is None and num_workers is None:
        raise ValueError("say what the job is to have: --num-ps, --num-workers, or both")
    shape = import_module("monolith.train.job.scale.shape")
    shape.JobShape(num_ps=1 if num_ps is None else num_ps, num_workers=1 if num_workers is None else num_workers)
    import_module("monolith.train.job.ask_to_scale").ask_to_scale(
        model_dir,
        num_ps=num_ps,
        num_workers=num_workers,
        tls=tls_config(tls_cert, tls_key, tls_ca),
        wait_seconds=timeout,
        say=typer.echo,
    )
