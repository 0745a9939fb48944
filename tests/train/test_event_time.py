"""Rows expire by event time: bad times in a replay lose none of them, and real gaps are followed."""

import io
import json
import shutil

import numpy as np
import pytest
from rich.console import Console

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.checkpoint.format.manifest import read_manifest
from monolith.data import EventLogSource, EventLogWriter, OffsetError, Schema
from monolith.embedding import SgdOptimizer, ZerosInitializer
from monolith.train import LiveView
from monolith.train.config import RunnerConfig, command_line, parse_flags
from monolith.train.hooks import ThroughputMetricHook
from tests.train.hooks.test_metric_hooks import Client
from tests.train.recorder import Recorder

YEAR_2023 = 1_685_000_000
MINUTE, DAY = 60, 86_400
SCHEMA = Schema.of(uid="int64", req_time="int64")
BATCH = 32


class Forgetting(mono.MonolithModel):
    """Rows of users, which go after a day."""

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column(
            "uid", optimizer=SgdOptimizer(learning_rate=1.0), initializer=ZerosInitializer(), expire_time=1
        )

    def input_fn(self, mode):
        return EventLogSource(self.params, batch_size=BATCH)

    def model_fn(self, features, mode):
        (count,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        return mono.EstimatorSpec(label=None, pred=count.squeeze(1), loss=-count.sum())


def write(path, times):
    with EventLogWriter(path, SCHEMA) as writer:
        writer.append(
            {"uid": np.arange(writer.offset, writer.offset + len(times)), "req_time": np.array(times, np.int64)}
        )
    return path


def train(folder, log, *, hooks=(), steps=None, **config):
    """Train to the end of a log; returns users with a row."""
    hook = Recorder()
    settings = mono.RunConfig(model_dir=folder, log_step_count_steps=0, save_summary_steps=0, **config)
    mono.Estimator(Forgetting, settings, params=log).train(hooks=[hook, *hooks], steps=steps)
    return sorted(hook.rows["uid"])


def clock_of(folder):
    return read_manifest(latest_state(folder)).extra["clock"]


def a_replay():
    """One event a minute, 640 in all: those of the first hours have no row in the end only if a day passes."""
    return [YEAR_2023 + MINUTE * number for number in range(640)]


@pytest.mark.parametrize("bad", [YEAR_2023 * 1000, 3_976_214_400, YEAR_2023 + 30 * DAY])
@pytest.mark.parametrize("place", [0, 300, 319, 320, 639])
def test_one_bad_time_in_a_replay_loses_no_row(tmp_path, bad, place):
    times = a_replay()
    times[place] = bad
    assert train(tmp_path / "model", write(tmp_path / "log", times)) == list(range(640))


@pytest.mark.parametrize("bad", [YEAR_2023 * 1000, 3_976_214_400])
def test_rows_go_on_expiring_after_a_bad_time(tmp_path, bad):
    times = [YEAR_2023 + 10 * MINUTE * number for number in range(640)]  # 144 a day
    clean = train(tmp_path / "clean", write(tmp_path / "clean-log", times))
    times[100] = bad
    assert train(tmp_path / "model", write(tmp_path / "log", times)) == clean
    assert clean[0] >= 400 and clean[-1] == 639


@pytest.mark.parametrize("place", [320, 330, 350])
def test_a_gap_of_a_year_expires_what_was_before_it_and_nothing_after_it(tmp_path, place):
    """Users whose events share a batch with the first ones after it count as seen with those."""
    before = a_replay()[:place]
    after = [before[-1] + 365 * DAY + second for second in range(320)]
    first_of_batch = place // BATCH * BATCH
    assert train(tmp_path / "model", write(tmp_path / "log", before + after)) == list(
        range(first_of_batch, place + 320)
    )
    assert clock_of(tmp_path / "model")["now"] == after[-1]


def test_bad_times_that_alternate_lose_no_row(tmp_path):
    times = a_replay()
    times[100:400:2] = [YEAR_2023 * 1000, YEAR_2023 + 99 * DAY] * 75
    assert train(tmp_path / "model", write(tmp_path / "log", times)) == list(range(640))
    assert clock_of(tmp_path / "model")["rejected"] == 150


def test_a_run_that_stops_in_a_streak_goes_on_bit_for_bit(tmp_path):
    before = a_replay()[:160]
    times = [*before[:100], YEAR_2023 * 1000, *before[100:159]]
    times += [before[-1] + 365 * DAY + second for second in range(160)]  # from the sixth batch on, believed in the 7th
    log = write(tmp_path / "log", times)
    whole = train(tmp_path / "whole", log, save_checkpoints_steps=1)
    for steps in (6, 1):
        train(tmp_path / "parts", log, steps=steps)
        if steps == 6:
            assert clock_of(tmp_path / "parts")["streaks"] == {"0": [32, times[191]]}
            assert clock_of(tmp_path / "parts")["now"] == before[158]
    assert clock_of(tmp_path / "parts")["now"] == times[223]
    assert train(tmp_path / "parts", log) == whole
    assert clock_of(tmp_path / "parts") == clock_of(tmp_path / "whole")
    assert json.loads(json.dumps(clock_of(tmp_path / "parts"))) == clock_of(tmp_path / "parts")


def test_what_is_believed_is_a_setting_in_code_and_on_the_command_line(tmp_path):
    times = a_replay()
    times[320:330] = [YEAR_2023 + 30 * DAY + second for second in range(10)]
    log = write(tmp_path / "log", times)
    assert train(tmp_path / "default", log)[0] == 0
    # Ten agree, so all of the days before are over.
    assert train(tmp_path / "ten", log, event_time_jump_events=10)[0] >= 320
    assert train(tmp_path / "days", log, event_time_jump_seconds=31 * DAY)[0] >= 320
    flags = parse_flags(["--event_time_jump_events=10"], RunnerConfig)
    with command_line(flags):
        assert train(tmp_path / "flags", log)[0] >= 320


def test_rejected_times_are_counted_where_people_look(tmp_path, caplog):
    times = a_replay()
    times[40:50:3] = [YEAR_2023 * 1000] * 4
    client, shown = Client(), io.StringIO()
    view = LiveView(every_steps=1, console=Console(file=shown))
    hooks = [ThroughputMetricHook("movies", None, client=client), view]
    train(tmp_path / "model", write(tmp_path / "log", times), hooks=hooks)
    assert client.told == [("store", "event_times_rejected", 4, "model_name=movies|cluster_type=stable")]
    assert "4 events so far have a req_time more than 86400 seconds ahead" in caplog.text
    lines = shown.getvalue().splitlines()
    assert ["times rejected 4" in line for line in lines[:4]] == [False, False, True, True]


@pytest.mark.parametrize("name", ["event_time_jump_seconds", "event_time_jump_events"])
def test_limits_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        mono.RunConfig(**{name: 0})


def test_a_log_that_lost_its_end_and_grew_again_is_refused_with_a_way_out(tmp_path):
    """Else the events that took the place of those lost would be skipped."""
    log, times = tmp_path / "log", a_replay()
    write(log, times[: 4 * BATCH])
    write(log, times[4 * BATCH : 6 * BATCH])
    train(tmp_path / "model", log)
    shutil.rmtree(log)
    write(log, times[: 4 * BATCH])
    for added, message in ((0, "ends at offset 128, before offset 192"), (6 * BATCH, "event 191 is of generation")):
        write(log, times[len(times) - added :])
        with pytest.raises(OffsetError, match=message):
            train(tmp_path / "model", log)
    again = train(tmp_path / "again", log, restore_dir=str(tmp_path / "model"))
    assert again == list(range(10 * BATCH))


def test_short_files_are_followed_after_a_gap(tmp_path):
    """Files of one source go on with each other's streak, else none of these is long enough."""
    times = [*a_replay()[:320], *(YEAR_2023 + 365 * DAY + second for second in range(320))]
    for number in range(20):
        part = slice(32 * number, 32 * number + 32)
        rows = [f"{uid},{time}" for uid, time in zip(range(640)[part], times[part], strict=True)]
        (tmp_path / f"part-{number:02}.csv").write_text("\n".join(["uid,req_time", *rows, ""]))

    class OfFiles(Forgetting):
        def input_fn(self, mode):
            return mono.data.csv(f"{self.params}/part-*.csv", batch_size=BATCH, uid="int64", req_time="int64")

    config = mono.RunConfig(model_dir=tmp_path / "model", log_step_count_steps=0, save_summary_steps=0)
    mono.Estimator(OfFiles, config, params=tmp_path).train()
    assert clock_of(tmp_path / "model")["now"] == times[-1]
