"""`native_training.signal_utils`, whose import installs the handler, as the specification has it."""

import threading

from monolith.observe.stack_traces import add_siguser1_handler, print_stack_trace

__all__ = ["add_siguser1_handler", "print_stack_trace"]

if threading.current_thread() is threading.main_thread():
    add_siguser1_handler()
