"""The online benchmark: how soon an event is in what is served, and how many events and answers there are per second.

A generator appends movie events to a log, a trainer follows it and pushes deltas, a server answers over HTTP; each of
the last two is a process. A probe is one event of a user and a movie that nobody has seen before; it is fresh from just
before its append to the first answer that differs from the answer for other unseen ids.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.machine import busy_notice
from benchmarks.online.asking import Asker, asked_politely
from benchmarks.online.job import MODEL, Job, Progress
from benchmarks.online.probed_events import ProbedEvents
from benchmarks.report import Figure, Report
from monolith.data import EventLogWriter, MovieEvents, log_length

STAGE_SECONDS = 300.0
WARM_UP_PROBES = 3
MAX_PAUSE_SECONDS = 0.2
"""Between two probes; a few times what a batch needs to fill, and the pause between two pushes."""

_CHUNK = 100_000
_SILENT_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class OnlineSizes:
    """How much is measured, and the settings that freshness depends on."""

    num_probes: int
    num_backlog: int
    ask_seconds: float
    batch_size: int = 512
    """Only whole batches are trained on: at 10,000 events/s one is full after 51 ms."""

    rate_per_second: float = 10_000.0
    sync_seconds: float = 0.05
    """Pause between two pushes of deltas."""

    examples_per_request: int = 256


FULL = OnlineSizes(num_probes=500, num_backlog=8_000_000, ask_seconds=20.0)
QUICK = OnlineSizes(num_probes=50, num_backlog=1_000_000, ask_seconds=3.0)
SMOKE = OnlineSizes(num_probes=3, num_backlog=20_000, ask_seconds=0.2, batch_size=64, rate_per_second=1_000.0)
SIZES = {"full": FULL, "quick": QUICK, "smoke": SMOKE}


def measure(sizes: OnlineSizes, *, quick: bool, progress: Callable[[str], None]) -> Report:
    """Measure everything at the given sizes; `progress` gets one line per stage."""
    busy = busy_notice()
    events = ProbedEvents(MovieEvents(7))
    with tempfile.TemporaryDirectory(prefix="monolith-online-") as folder:
        with Job(Path(folder), events, batch_size=sizes.batch_size, sync_seconds=sizes.sync_seconds) as job:
            progress("start trainer and server")
            with job.stream(sizes.rate_per_second):
                job.wait_ready()
                progress(f"freshness of {sizes.num_probes} probes")
                freshness = _freshness(job, events, sizes)
                progress("predictions over HTTP")
                predictions = Asker(job.url).rate(sizes.ask_seconds, sizes.examples_per_request)
            progress(f"training on a backlog of {sizes.num_backlog} events")
            throughput = _throughput(job, events, sizes)
    return Report(
        benchmark="online",
        quick=quick,
        figures=_figures(freshness, throughput, predictions),
        details={"freshness_seconds": [round(one, 4) for one in freshness], "model": MODEL},
        sizes=asdict(sizes),
        notices=[] if busy is None else [busy],
    )


def _freshness(job: Job, events: ProbedEvents, sizes: OnlineSizes) -> list[float]:
    """Return the seconds from the append of each probe to the first answer that reflects it.

    Probes come at random times: the moment one is served is just after a push, and a probe appended there would always
    meet the batches and pushes in the same phase.
    """
    asker, seconds, dice = Asker(job.url), [], random.Random(0)
    for number in range(WARM_UP_PROBES + sizes.num_probes):
        job.check()
        time.sleep(dice.uniform(0, MAX_PAUSE_SECONDS))
        if asker.knows(number):
            raise RuntimeError(f"the server knows probe {number} before it happened: the measure is wrong")
        appended = events.probe(number, timeout_seconds=10.0)
        seconds.append(asker.await_probe(number) - appended)
    return seconds[WARM_UP_PROBES:]


def _throughput(job: Job, events: ProbedEvents, sizes: OnlineSizes) -> float:
    """Return the events per second that a trainer makes of a backlog, snapshots and pushes included.

    Between two words of the trainer from within the backlog: it says with each when that was.
    """
    start = end = log_length(job.log)
    with EventLogWriter(job.log, events.schema) as writer, asked_politely(job.url):

        def feed() -> None:
            nonlocal end
            for first in range(end, end + sizes.num_backlog, _CHUNK):
                writer.append(events.events(first, min(_CHUNK, end + sizes.num_backlog - first)))
            writer.flush()
            end += sizes.num_backlog

        feed()
        begin = _next_word(job, "training on the backlog", Progress(time.time(), start), feed)
        enough = max(start + sizes.num_backlog // 2, begin.offset)
        last = _next_word(job, "half of the backlog", Progress(begin.time, enough), feed)
    return (last.offset - begin.offset) / (last.time - begin.time)


def _next_word(job: Job, what: str, beyond: Progress, feed: Callable[[], None]) -> Progress:
    """Return the trainer's first word from beyond a time and an offset.

    It says one about every second while it trains. One that is silent for longer has nothing left, and is fed again.
    """
    patience = time.monotonic() + _SILENT_SECONDS

    def said() -> bool:
        nonlocal patience
        now = job.progress()
        if time.monotonic() > patience:
            feed()
            patience = time.monotonic() + _SILENT_SECONDS
        return now.time > beyond.time and now.offset > beyond.offset

    job.wait_until(what, said, STAGE_SECONDS)
    return job.progress()


def _figures(freshness: list[float], throughput: float, predictions: float) -> list[Figure]:
    p50, p99 = (float(np.percentile(freshness, share)) for share in (50, 99))
    return [
        Figure(name="freshness_p50_seconds", value=p50, meaning="append of an event to the first answer with it, half"),
        Figure(name="freshness_p99_seconds", value=p99, meaning="the same, 99 of 100"),
        Figure(name="events_per_second", value=throughput, meaning="training on a backlog while serving goes on"),
        Figure(name="predictions_per_second", value=predictions, meaning="over HTTP, one client, while training"),
    ]
