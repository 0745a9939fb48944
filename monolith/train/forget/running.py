"""The run that trains in a folder, if there is one: it forgets first, so that it writes nothing of the ids later."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from monolith.checkpoint import ModelDirOwner
from monolith.checkpoint.forget.finding import Finding, FoundKind, Targets, finding
from monolith.errors import ModelDirInUseError, RemoteError
from monolith.parallel.coordination.messages import CoordinationRequest, ask
from monolith.train.controller import ControllerClient
from monolith.train.job.status import chief_client
from monolith.wire import TlsConfig


@contextmanager
def held(model_dir: Path) -> Iterator[bool]:
    """Keep runs out of a folder while the block goes on; if one trains there already, the block gets True."""
    try:
        owner = ModelDirOwner(model_dir)
    except ModelDirInUseError:
        yield True
        return
    with owner:
        yield False


def forget_in_run(
    model_dir: Path, targets: Targets, *, tls: TlsConfig | None = None, timeout_seconds: float
) -> list[Finding]:
    """Let the run in a folder forget the ids; return what it had of them.

    Raises:
        ValueError: The run does not listen, or cannot forget.
        TimeoutError, ConnectionError: It does not answer.
    """
    found = _ask_job(model_dir, targets, tls, timeout_seconds)
    if found is None:
        try:
            with ControllerClient(model_dir) as client:
                found = client.forget(targets, timeout_seconds)
        except FileNotFoundError as error:
            raise ValueError(
                f"a run trains in {model_dir} and does not listen: stop it first, or start it with --enable-controller"
            ) from error
        except RemoteError as error:
            raise ValueError(str(error)) from error
    kinds = {"rows": FoundKind.ROW, "counts": FoundKind.COUNT}
    place = f"the run in {model_dir}"
    return [
        one
        for what, kind in kinds.items()
        for table, ids in found[what].items()
        for one in finding(place, kind, table, set(ids))
    ]


def _ask_job(
    model_dir: Path, targets: Targets, tls: TlsConfig | None, timeout_seconds: float
) -> dict[str, dict[str, list[int]]] | None:
    """Return the answer of the chief of a job; None if no job of several processes runs there."""
    asked = {table: sorted(ids) for table, ids in targets.items()}
    try:
        with chief_client(model_dir, tls=tls) as client:
            said = client.request(ask(CoordinationRequest.FORGET, ids=asked), timeout_seconds).meta
    except (FileNotFoundError, ConnectionError):
        return None  # none, or one that ended and left its address
    except RemoteError as error:
        raise ValueError(str(error)) from error
    return {what: dict(said[what]) for what in ("rows", "counts")}
