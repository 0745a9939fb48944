"""Ranks that keep a server up to date: it answers what their newest checkpoint predicts, also after going back."""

import threading

import numpy as np

from monolith.delta import DeltaPart, DeltaReceiver
from monolith.export.load import load_export
from monolith.export.versions import newest_export
from monolith.hooks import RunContext, StepValues
from monolith.train.live.step_gate import StepGate
from monolith.wire import SharedSecret
from tests.patience import PATIENCE_SECONDS
from tests.train.job.live_part import NUM_USERS
from tests.train.job.test_live_job import asked, predicted
from tests.train.ranks.live_ranks import NUM_EVENTS, PHASES, serve_phases, train_in_phases
from tests.train.ranks.mixed_job import servers
from tests.train.ranks.rank_processes import Ranks


def test_a_server_follows_ranks_with_and_without_servers_of_rows_and_goes_back_with_them(tmp_path):
    versions = tmp_path / "model" / "versions"

    def go(number, target=""):
        (tmp_path / "going").write_text(target)
        (tmp_path / "going").rename(tmp_path / f"go-{number}")
        ranks.wait_for_file(tmp_path / f"done-{number}")

    with servers(serve_phases, tmp_path), Ranks(2, train_in_phases, tmp_path) as ranks:
        go(0)
        served = load_export(newest_export(versions))
        assert set(served.parts) == {DeltaPart(0, 2), DeltaPart(1, 2), DeltaPart(None, 2)}
        receiver = DeltaReceiver(served, plan_hash=served.plan_hash, generation=served.generation, parts=served.parts)
        generations = [served.generation]
        with receiver.listen("127.0.0.1:0", secret=SharedSecret.of_folder(versions)) as listener:
            for number in range(1, len(PHASES)):
                go(number, str(listener.address))
                wanted = predicted(tmp_path / "model", NUM_EVENTS)
                assert np.allclose(asked(served), wanted, rtol=0, atol=1e-6), number
                assert receiver.freshness.complete
                steps = [2, 2 + 6, 15, 5 + 1][number]
                assert receiver.freshness.watermark["event_seq"] == NUM_EVENTS * steps // 15 - 1
                generations.append(receiver.freshness.position.generation)
        assert generations == sorted(set(generations))
        assert len(served.tables["uid"]) < NUM_USERS, "rows that expired are gone"
        ranks.results()


def test_servers_read_the_weights_while_rank_0_waits_for_others():
    gate, context = StepGate(), RunContext(model=None, tables=None)
    gate.before_run(context)
    read = threading.Event()

    def look():
        with gate.between_steps():
            read.set()

    reader = threading.Thread(target=look, daemon=True)
    reader.start()
    assert not read.wait(0.05)  # a step is under way
    with gate.outside():
        assert read.wait(PATIENCE_SECONDS)
    reader.join(PATIENCE_SECONDS)
    gate.after_run(context, StepValues(step=0, loss=0.0, num_events=1, partition="0", first=0, last=1))
