"""SIGUSR1 in real processes: every thread's stack, and the handler that was there."""

import subprocess
import sys

from tests.patience import PATIENCE_SECONDS

SCRIPT = """
import signal, threading, sys
signal.signal(signal.SIGUSR1, lambda *_: print("the one before", file=sys.stderr))
{setup}
ready, done = threading.Event(), threading.Event()
def waits_in_the_background():
    ready.set()
    done.wait(300)
thread = threading.Thread(target=waits_in_the_background, name="worker-7")
thread.start()
ready.wait(300)
def the_main_function():
    signal.raise_signal(signal.SIGUSR1)
the_main_function()
done.set()
thread.join()
"""


def errors_of(setup):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(setup=setup)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    return done.stderr


def test_all_stacks_are_printed_once_and_the_handler_before_is_called():
    setup = "from monolith.observe.stack_traces import add_siguser1_handler as add; add(); add()"
    errors = errors_of(setup)
    assert "the one before" in errors
    assert "the_main_function" in errors
    assert "worker-7" in errors
    assert "waits_in_the_background" in errors
    assert errors.count("--- thread MainThread") == 1


def test_importing_the_original_path_installs_it():
    assert "the_main_function" in errors_of("import monolith; import monolith.native_training.signal_utils")
