"""ParameterSyncHook: the servers that a backend names get what a run learns."""

import pytest

from monolith.delta import DeltaReceiver
from monolith.export import load_export, newest_export
from monolith.hooks import RunContext, StepValues
from monolith.native_training.sync_training_hooks import ParameterSyncHook
from monolith.wire import SharedSecret
from tests.train.test_live_sources import USERS, estimator, labels, read_by_workers, trace_once  # noqa: F401


class Backend:
    """Counts how often it is asked."""

    def __init__(self, targets) -> None:
        self.targets, self.asked = targets, []

    def get_sync_targets(self, sub_graph):
        self.asked.append(sub_graph)
        return f"movie:{sub_graph}", self.targets


def test_the_servers_of_a_backend_follow_the_run(tmp_path):
    estimator(tmp_path, read_by_workers).train(steps=1)
    served = load_export(newest_export(tmp_path / "export"))
    receiver = DeltaReceiver(served, plan_hash=served.plan_hash, generation=served.generation, sequence=served.sequence)
    with receiver.listen("127.0.0.1:0", secret=SharedSecret.of_folder(tmp_path / "export")) as listener:
        backend = Backend({str(listener.address): {"replica_id": 0}})
        hook = ParameterSyncHook(backend, 0, refresh_interval=4)
        estimator(tmp_path, read_by_workers, sync_every_seconds=0.01).train(hooks=[hook])
    assert served.tables["uid"].lookup(USERS).flatten().tolist() == [1.0] * len(USERS)
    assert set(backend.asked) == {"ps_0"} and len(backend.asked) >= 2


def test_a_backend_is_asked_again_every_few_steps():
    backend = Backend(["127.0.0.1:7001"])
    hook = ParameterSyncHook(backend, 3, refresh_interval=2)
    assert hook.targets == hook.targets == ["127.0.0.1:7001"] and backend.asked == ["ps_3"]
    backend.targets = []
    context = RunContext(model=None, tables=None)
    values = StepValues(step=0, loss=0.0, num_events=1, partition="", first=0, last=1)
    hook.after_run(context, values)
    assert hook.targets == ["127.0.0.1:7001"]
    hook.after_run(context, values)
    assert hook.targets == [] and backend.asked == ["ps_3", "ps_3"]


def test_a_run_that_is_not_live_refuses_the_hook(tmp_path):
    plain = estimator(tmp_path, read_by_workers)
    plain.config.export_base = None
    with pytest.raises(ValueError, match="set export_base"):
        plain.train(hooks=[ParameterSyncHook(Backend([]), 0)])
    with pytest.raises(ValueError, match="at least 1 step"):
        ParameterSyncHook(Backend([]), 0, refresh_interval=0)
