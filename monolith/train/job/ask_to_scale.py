"""ask_to_scale: a job that runs is asked to go on with another number of processes; this waits until it does."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from monolith.errors import RemoteError
from monolith.parallel.coordination.messages import CoordinationRequest, ask
from monolith.train.job.scale.shape import CLUSTER_FOLDER, JobShape, ScaleOutcome
from monolith.train.job.status import chief_client, job_status
from monolith.wire import Deadline, TlsConfig

_ANSWER_SECONDS = 10.0
_POLL_SECONDS = 0.2


def ask_to_scale(
    model_dir: Path,
    *,
    num_ps: int | None,
    num_workers: int | None,
    tls: TlsConfig | None = None,
    wait_seconds: float,
    say: Callable[[str], None],
) -> None:
    """Ask the chief of the job in a folder, and wait until the job goes on; `say` gets a line for every stage.

    Raises:
        FileNotFoundError: No job runs there.
        ValueError: The job cannot have this number of processes, has it already, or is being scaled.
        RuntimeError: The job ended instead, or goes on as it was.
        TimeoutError: It was not started again in time.
    """
    try:
        with chief_client(model_dir, tls=tls) as client:
            request = ask(CoordinationRequest.SCALE, num_ps=num_ps, num_workers=num_workers)
            said = client.request(request, _ANSWER_SECONDS).meta
    except RemoteError as error:
        raise ValueError(str(error)) from error
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"no job of several processes runs in {model_dir}, so there is nothing to scale. Start it with other "
            "--num-ps and --num-workers: it goes on from its newest snapshot"
        ) from error
    shape = JobShape(num_ps=said["num_ps"], num_workers=said["num_workers"])
    say(f"at step {said['global_step']:,} the job was asked to stop for {shape}")
    deadline = Deadline.after(wait_seconds)
    outcome = _wait_for_outcome(model_dir, said, tls, deadline)
    say(f"it has stopped, with a snapshot of step {outcome.step:,}")
    found = _wait_for_start(model_dir, shape, outcome, int(said["generation"]), tls, deadline)
    say(f"it goes on with {shape} from step {outcome.step:,}, in generation {found['generation']}")


def _wait_for_outcome(
    model_dir: Path, said: Mapping[str, Any], tls: TlsConfig | None, deadline: Deadline
) -> ScaleOutcome:
    while (outcome := _outcome_of(model_dir, said)) is None:
        found = _status(model_dir, tls)
        is_forgotten = found["generation"] > said["generation"] and "scaling_to" not in found
        if is_forgotten and _outcome_of(model_dir, said) is None:
            raise RuntimeError("the job goes on as it was: its chief was lost before it could stop; ask again")
        if deadline.expired:
            raise TimeoutError(
                f"the job in {model_dir} has not stopped in time; it waits for workers that are lost, and "
                f"`monolith status {model_dir}` shows them"
            )
        time.sleep(_POLL_SECONDS)
    if outcome.what == "over":
        raise RuntimeError(
            f"the job came to its end at step {outcome.step:,} before it could be scaled; nothing is left"
        )
    if outcome.what == "called off":
        raise RuntimeError(f"the job goes on as it was: {outcome.reason}; ask again when all its workers run")
    return outcome


def _outcome_of(model_dir: Path, said: Mapping[str, Any]) -> ScaleOutcome | None:
    outcome = ScaleOutcome.read(model_dir / CLUSTER_FOLDER)
    return outcome if outcome is not None and outcome.request == said["request"] else None


def _status(model_dir: Path, tls: TlsConfig | None) -> dict[str, Any]:
    """Return the status of the job; that of no generation if nobody answers."""
    try:
        return job_status(model_dir, tls=tls, timeout_seconds=_ANSWER_SECONDS)
    except OSError:
        return {"generation": 0}


def _wait_for_start(
    model_dir: Path, shape: JobShape, outcome: ScaleOutcome, generation: int, tls: TlsConfig | None, deadline: Deadline
) -> dict[str, Any]:
    while not deadline.expired:
        found = _status(model_dir, tls)
        if found["generation"] > generation:
            now = JobShape(num_ps=len(found["servers"]), num_workers=len(found["workers"]))
            if now != shape:
                raise RuntimeError(f"the job was started again with {now}, not with {shape}; ask again")
            return found
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(
        f"the job in {model_dir} has stopped with a snapshot of step {outcome.step:,}, and was not started again in "
        "time. `monolith launch`, here or on Ray, does so by itself; elsewhere, start all processes with "
        f"--num-ps {shape.num_ps} --num-workers {shape.num_workers}"
    )
