"""Attacks one after the other in a process of their own, which may die of one: the next process goes on behind it."""

import importlib
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.hostile.report import Report
from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]
HANG_SECONDS = 90.0
"""A process that says nothing for so long hangs; far more than an attack takes, also on a busy machine."""

READY = "ready"
"""A file that is there once the first attack may begin."""

SLOW_SECONDS = 5.0
"""Of processor time, which a busy machine does not stretch much."""

MEMORY_BYTES = 24 << 30
"""Address space of a process: a file of a few kilobytes that takes more is an attack that worked."""


@dataclass(frozen=True)
class Outcome:
    """What came of one attack."""

    part: str
    verdict: str
    """Name of a count of `Counts`."""
    note: str = ""


Attacker = Callable[[random.Random, int], Outcome]
"""Makes the attack of a number with these dice."""


def attack_in_children(kind: str, module: str, seed: int, count: int) -> Report:
    """Make the attacks of a module, which has `prepare(folder) -> Attacker`, and count what comes of them."""
    report = Report(kind, seed)
    begin = time.monotonic()
    number = 0
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        while number < count:
            number = _attack_in_child(report, module, Path(folder), number, count)
    report.seconds = time.monotonic() - begin
    return report


def _attack_in_child(report: Report, module: str, folder: Path, first: int, count: int) -> int:
    """Attack until all is done or the process has died; return the number to go on with."""
    errors = folder / "stderr"
    command = [sys.executable, "-m", "tests.hostile.children", module, str(folder), str(report.seed)]
    with errors.open("wb") as stderr:
        child = subprocess.Popen(
            [*command, str(first), str(count)], cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read_lines, args=(child, lines), daemon=True)
    reader.start()
    number, begin = first, time.monotonic()
    is_ready = (folder / f"from-{first}" / READY).exists
    try:
        while number < count:
            try:
                line = lines.get(timeout=HANG_SECONDS)
            except queue.Empty:
                if not is_ready() and time.monotonic() < begin + PATIENCE_SECONDS:
                    continue  # it imports, which may take long
                report.count("died", "crashes", slow=True)
                report.findings.append(_finding(report, number, "died", f"hangs for more than {HANG_SECONDS} s"))
                return number + 1
            if line is None:
                if not is_ready():
                    raise RuntimeError(f"no attack was made: {errors.read_text(errors='replace')[-2000:]}")
                said = errors.read_text(errors="replace").strip().splitlines()
                report.count("died", "crashes")
                why = f"ended with {child.wait()}: {said[0][:200] if said else ''}"
                report.findings.append(_finding(report, number, "died", why))
                return number + 1
            values = json.loads(line)
            outcome, seconds = Outcome(**values["outcome"]), values["seconds"]
            is_slow = seconds > SLOW_SECONDS
            report.count(outcome.part, outcome.verdict, slow=is_slow)
            if is_slow or outcome.verdict in ("crashes", "wrong_values"):
                why = f"{outcome.verdict} in {seconds:.1f} s: {outcome.note}"
                report.findings.append(_finding(report, number, outcome.part, why))
            number += 1
        return number
    finally:
        child.kill()
        child.wait()
        reader.join()
        assert child.stdout is not None
        child.stdout.close()


def _finding(report: Report, number: int, part: str, why: str) -> str:
    return f"{report.kind}, seed {report.seed}, attack {number} ({part}): {why}"


def _read_lines(child: subprocess.Popen[str], lines: "queue.Queue[str | None]") -> None:
    assert child.stdout is not None
    for line in child.stdout:
        lines.put(line)
    lines.put(None)


def main(module: str, folder: str, seed: str, first: str, count: str) -> None:
    """Attack in this process, and say what came of each attack."""
    _limit_memory()
    warnings.simplefilter("ignore")
    # What the code under attack prints is no report.
    said, sys.stdout = sys.stdout, sys.stderr
    place = Path(folder) / f"from-{first}"
    place.mkdir()
    attacker: Attacker = importlib.import_module(module).prepare(place)
    (place / READY).touch()
    for number in range(int(first), int(count)):
        begin = time.process_time()
        try:
            outcome = attacker(random.Random(f"{seed}/{number}"), number)
        except Exception as error:  # noqa: BLE001  every other end of an attack is what is looked for
            at = traceback.extract_tb(error.__traceback__)[-1]
            note = f"{type(error).__name__}: {str(error)[:200]} at {os.path.basename(at.filename)}:{at.lineno}"
            outcome = Outcome(getattr(error, "part", "unknown"), "crashes", note)
        print(json.dumps({"outcome": asdict(outcome), "seconds": time.process_time() - begin}), file=said, flush=True)


def _limit_memory() -> None:
    if sys.platform == "linux":
        import resource  # noqa: PLC0415  there is none elsewhere

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
