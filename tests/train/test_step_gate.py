"""StepGate: readers and steps stay apart."""

import threading

from monolith.train.live.step_gate import StepGate


def test_readers_get_in_between_the_steps_of_a_busy_trainer():
    gate, inside, wrong = StepGate(), threading.Event(), []
    in_step = threading.Event()

    def read() -> None:
        with gate.between_steps():
            wrong.append(in_step.is_set())
            inside.set()

    reader = threading.Thread(target=read)
    gate.before_run(None)
    in_step.set()
    reader.start()
    assert not inside.wait(0.05)
    in_step.clear()
    gate.after_run(None, None)
    gate.before_run(None)  # returns only when the reader, which came first, is done
    assert inside.is_set()
    assert wrong == [False]
    reader.join()
