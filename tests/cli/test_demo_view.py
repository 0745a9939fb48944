"""What the demo shows while it runs, without its processes."""

import io

from rich.console import Console

from monolith.cli.demo.story import Story, time_left
from monolith.cli.demo.view import DemoView


def told(*pairs):
    story = Story()
    for live, frozen in pairs:
        story.add(live, frozen)
    return story


def test_nothing_is_claimed_before_there_is_an_auc():
    story = told((float("nan"), float("nan")))
    assert story.lines() == {}
    assert story.sentence() == "Both models are asked about events that have not happened yet."


def test_the_sentence_follows_what_happens():
    assert "know the same so far" in told((0.70, 0.70)).sentence()
    assert told((0.70, 0.70), (0.78, 0.70)).sentence() == "The live model has learned more: it is ahead by 0.080."
    assert told((0.70, 0.70), (0.71, 0.65)).sentence() == "Tastes drift; the frozen copy falls behind, now by 0.060."


def test_sparklines_share_a_scale():
    lines = told((0.6, 0.6), (0.8, 0.5), (0.9, 0.5)).lines()
    assert lines == {"AUC live": "▃▆█ 0.900", "AUC frozen": "▃▁▁ 0.500"}


def test_the_time_left():
    assert [time_left(59.5), time_left(0), time_left(-1)] == ["1:00 left", "0:00 left", "0:00 left"]


def test_a_terminal_gets_a_table_with_the_sentence_and_a_log_gets_a_line():
    story = told((0.6, 0.6), (0.9, 0.5))
    for terminal in (True, False):
        out = io.StringIO()
        with DemoView(Console(file=out, force_terminal=terminal, width=120)) as view:
            view.show("monolith demo, 0:12 left", story.lines(), story.sentence())
        text = out.getvalue()
        for words in ("0:12 left", "▃█ 0.900", "▃▁ 0.500", "the frozen copy falls behind"):
            assert words in text
        assert (len(text.splitlines()) == 1) != terminal
