"""The log between real processes: one writes, one reads, one is killed."""

import os
import random
import signal
import subprocess
import sys
import threading

import pytest

from monolith.data import EventLogSource, EventLogWriter, LogInUseError, log_length
from tests.data.made_events import SCHEMA, append_and_report, made, read
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def processes():
    return PROCESSES


def start_writer(processes, path, *, frame, limit):
    ours, theirs = processes.Pipe(duplex=False)
    process = processes.Process(target=append_and_report, args=(str(path), theirs, frame, limit), daemon=True)
    process.start()
    theirs.close()
    assert ours.poll(PATIENCE_SECONDS), "the writer process did not start"
    return process, ours, int(ours.recv_bytes())


def test_a_follower_sees_every_event_of_another_process_once_and_in_order(tmp_path, processes):
    EventLogWriter(tmp_path, SCHEMA).close()
    total = 3_000
    stop = threading.Event()
    source = EventLogSource(tmp_path, batch_size=50, follow=True, stop=stop)
    process, reports, _ = start_writer(processes, tmp_path, frame=33, limit=total)
    drain = threading.Thread(target=lambda: [reports.recv_bytes() for _ in range(-(-total // 100))])
    drain.start()
    seen = []
    for batch in source:
        assert len(batch) == 50 and batch.first == len(seen)
        seen += batch.columns["seq"].tolist()
        if len(seen) == total:
            stop.set()
    drain.join(PATIENCE_SECONDS)
    process.join(PATIENCE_SECONDS)
    assert process.exitcode == 0
    assert seen == list(range(total))


def test_the_lock_names_another_process_and_goes_when_it_dies(tmp_path, processes):
    # Its end of the pipe is kept: a writer that cannot report ends.
    process, _reports, _ = start_writer(processes, tmp_path, frame=1, limit=None)
    with pytest.raises(LogInUseError, match=rf"process {process.pid}\b"):
        EventLogWriter(tmp_path, SCHEMA)
    os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE_SECONDS)
    EventLogWriter(tmp_path, SCHEMA).close()


def test_kill_9_at_random_moments_loses_nothing_synced(tmp_path, processes):
    random_moments = random.Random(20)
    safe = 0
    for _ in range(20):
        frame = random_moments.choice([1, 10, 300])
        process, reports, resumed_at = start_writer(processes, tmp_path, frame=frame, limit=None)
        assert resumed_at >= safe
        for _ in range(random_moments.randrange(4)):
            safe = int(reports.recv_bytes())
        # Event.wait is the clock here: the kill falls anywhere in an append, a flush, a sync or a rotation.
        threading.Event().wait(random_moments.random() * 0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.join(PATIENCE_SECONDS)
        while True:  # what it had reported before it died was synced too
            try:
                safe = max(safe, int(reports.recv_bytes()))
            except (EOFError, OSError):
                break
        length = log_length(tmp_path)
        assert length >= safe
        assert read(tmp_path, start=max(0, safe - 500)) == length
    with EventLogWriter(tmp_path, SCHEMA) as writer:
        writer.append(made(writer.offset, 5))
        assert read(tmp_path) + 5 == writer.offset


def test_a_log_is_usable_from_a_plain_script(tmp_path):
    script = (
        "import sys, numpy as np; from monolith.data import EventLogWriter, Schema\n"
        "with EventLogWriter(sys.argv[1], Schema.of(uid='int64')) as log: log.append({'uid': np.arange(3)})"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=PATIENCE_SECONDS)
    (batch,) = EventLogSource(tmp_path, batch_size=10)
    assert batch.columns["uid"].tolist() == [0, 1, 2]
