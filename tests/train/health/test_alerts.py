"""Alerts: what the settings may say, when one fires, and what is then logged and counted."""

import threading
from types import SimpleNamespace

import pytest

from monolith.hooks import Hook, RunContext
from monolith.train.config import RunConfig, RunnerConfig
from monolith.train.config.command_line import command_line, parse_flags
from monolith.train.config.run_settings import RunSettings
from monolith.train.controller import Pause
from monolith.train.health.alert_config import AlertConfig
from monolith.train.health.alert_hook import AlertHook, StandsStill
from monolith.train.hooks.standard import standard_hooks
from monolith.train.job.worker_state import WorkerState
from monolith.train.ranks.other_rank import OtherRank
from monolith.train.ranks.rank_state import Say
from tests.patience import PATIENCE_SECONDS
from tests.train.counting_model import Counting, train

TEXT = 'training_alert { prefix: "movies" } alert_message { user: "ann" user: "ben" }'


class Counters:
    """Remembers what is counted."""

    def __init__(self):
        self.told, self.fired = [], threading.Event()

    def emit_counter(self, key, value, tags=""):
        self.told.append((key, value, tags))
        self.fired.set()


def alerts_of(config):
    return RunSettings.of(config, Counting(None)).watch.alerts


def test_defaults_are_those_of_the_original():
    assert AlertConfig.of("monolith_alert_proto", "") is None
    assert AlertConfig.of("monolith_alert_proto", TEXT) == AlertConfig(
        training=True, prefix="movies", users=("ann", "ben"), start_delay_seconds=0, check_interval_seconds=1800
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "training_alert",
            "monolith_alert_proto='training_alert' is no AlertProto in text form .*check_interval_sec: 600",
        ),
        ('kafka_alert { topic: "t" group: "g" }', "kafka_alert watches .*leave it out, training_alert notices"),
        ("training_alert {} check_interval_sec: 0", "check_interval_sec must be at least 1, got 0"),
        ("training_alert {} start_delay_sec: -1", "start_delay_sec must be at least 0, got -1"),
        ('training_alert {} alert_message { user: "a|b" }', r"without \|, got 'a\|b'"),
        ("check_interval_sec: 60", "names nothing to alert about, .*add training_alert"),
    ],
)
def test_what_cannot_be_is_refused_before_work_starts(tmp_path, text, words):
    with pytest.raises(ValueError, match=words):
        train(tmp_path / "model", monolith_alert_proto=text)
    assert not (tmp_path / "model").exists()


def test_the_chief_has_a_setting_of_its_own():
    both = {"monolith_alert_proto": "training_alert {}", "monolith_chief_alert_proto": TEXT, "num_ps": 1}
    assert alerts_of(RunnerConfig(**both)).users == ("ann", "ben")
    assert alerts_of(RunnerConfig(**both, num_workers=2, index=1)).users == ()
    assert alerts_of(RunnerConfig(monolith_chief_alert_proto=TEXT, num_workers=2, index=1, num_ps=1)) is None


def test_settings_come_through_every_door():
    flags = parse_flags(["--monolith_alert_proto", TEXT, "--monolith-default-machine-info-mem-limit=9"], RunnerConfig)
    with command_line({**flags, "num_ps": 1}):
        settings = RunSettings.of(RunnerConfig(), Counting(None))
    code = RunConfig(monolith_alert_proto=TEXT, monolith_default_machine_info_mem_limit=9, num_ps=1)
    for found in (settings, RunSettings.of(code.to_runner_config(), Counting(None))):
        assert found.watch.alerts.users == ("ann", "ben")
        assert found.job.machine.mem_limit == 9


@pytest.mark.parametrize("settings", [{}, {"num_ps": 1, "is_local": True}, {"enable_sync_training": True}])
def test_a_limit_of_memory_without_processes_of_servers_is_refused(tmp_path, settings):
    with pytest.raises(ValueError, match="mem_limit=9 is for the processes of parameter servers, and there are none"):
        train(tmp_path, monolith_default_machine_info_mem_limit=9, **settings)


def test_a_limit_of_no_memory_is_refused(tmp_path):
    with pytest.raises(ValueError, match="mem_limit=0: a limit of memory is at least 1 byte"):
        train(tmp_path, monolith_default_machine_info_mem_limit=0, num_ps=1)


@pytest.mark.parametrize(("text", "count"), [("training_alert {}", 1), ("", 0), ("check_interval_sec: 60", 0)])
def test_a_run_watches_itself_if_its_alert_says_so(text, count):
    config = RunSettings.of(RunnerConfig(monolith_alert_proto=text, num_ps=1, save_summary_steps=0), Counting(None))
    assert sum(isinstance(hook, AlertHook) for hook in standard_hooks(config.watch)) == count


def test_a_run_that_takes_no_step_between_two_looks_is_found():
    find, context = StandsStill(), RunContext(model=None, tables=None)
    found = []
    for context.global_step in (7, 8, 8, 8, 9):
        found.append(find(context))
    words = "no step was taken since the last check; the run is at step 8"
    assert found == [None, None, words, words, None]


def test_an_alert_is_logged_and_counted_for_every_user(caplog):
    config, counters = AlertConfig(users=("ann", "ben")), Counters()
    problems = iter([None, "it burns"])
    hook = AlertHook(config, "servers", lambda context: next(problems), client=counters)
    context = RunContext(model=None, tables=None)
    hook.check(context)
    assert counters.told == []
    hook.check(context)
    assert counters.told == [("alerts", 1, "kind=servers|user=ann"), ("alerts", 1, "kind=servers|user=ben")]
    assert "alert (servers) for ann, ben: it burns" in caplog.text


def test_it_looks_again_and_again_until_the_run_ends():
    counters, problems = Counters(), iter([None, "bad"])
    config = AlertConfig(check_interval_seconds=1)
    hook = AlertHook(config, "servers", lambda context: next(problems, None), client=counters)
    context = RunContext(model=None, tables=None)
    hook.after_create_session(context)
    assert counters.fired.wait(PATIENCE_SECONDS)
    hook.end(context)
    assert counters.told[0] == ("alerts", 1, "kind=servers|user=nobody")


def test_an_error_in_one_look_does_not_end_the_looking(caplog):
    counters, problems = Counters(), iter(["bad"])

    def find(context):
        if not caplog.records:
            raise OSError("too many files open")
        return next(problems, None)

    hook = AlertHook(AlertConfig(check_interval_seconds=1), "servers", find, client=counters)
    context = RunContext(model=None, tables=None)
    hook.after_create_session(context)
    assert counters.fired.wait(PATIENCE_SECONDS)
    hook.end(context)
    assert "too many files open" in caplog.text


def test_nothing_is_looked_at_before_the_start_delay():
    looked = []
    hook = AlertHook(AlertConfig(start_delay_seconds=3600), "servers", lambda context: looked.append(1))
    context = RunContext(model=None, tables=None)
    hook.after_create_session(context)
    hook.end(context)  # does not wait for the delay
    assert looked == []


def test_a_run_that_is_not_to_take_steps_does_not_stand_still():
    pause = Pause()
    find, context = StandsStill(), RunContext(model=None, tables=None, global_step=7, pause=pause)
    assert find(context) is None
    pause.place()
    assert [find(context), find(context)] == [None, None]
    pause.lift()
    assert find(context) is None, "it has had no time for a step yet"
    assert find(context) == "no step was taken since the last check; the run is at step 7"
    pause.is_held_by_others = lambda: True
    assert find(context) is None
    pause.is_held_by_others = lambda: False
    pause.end_part()
    assert [find(context), find(context)] == [None, None]


def test_a_run_expects_steps_until_its_part_is_done(tmp_path):
    class Look(Hook):
        def __init__(self):
            self.seen = []

        def after_run(self, context, values):
            self.seen.append(context.pause.rests)

        def end(self, context):
            self.seen.append(context.pause.rests)

    look = Look()
    train(tmp_path, events=8, hooks=[look])
    assert look.seen == [False, False, True]


def test_a_worker_that_waits_for_the_others_is_done():
    seen = []
    state = WorkerState.__new__(WorkerState)
    state.pause = Pause()
    state.link = SimpleNamespace(stops=False, finish=lambda ending: seen.append(state.pause.rests))
    state.wait_for_others("interrupted", interrupted=True, tick=lambda: None)
    assert not state.pause.rests, "another process takes up its part"
    state.wait_for_others("the data ended", interrupted=False, tick=lambda: None)
    assert seen == [True]


def test_a_rank_that_rank_0_holds_up_is_paused():
    rank = OtherRank.__new__(OtherRank)
    said, seen = iter([Say.HOLD, Say.PAUSE, Say.HOLD, Say.PAUSE, Say.GO]), []
    rank._obey = lambda order: seen.append(rank._is_paused)
    rank._gather = lambda say: [next(said), Say.GO]
    assert rank._meet(Say.GO)
    assert seen == [False, True, True, True]
    assert not rank._is_paused
