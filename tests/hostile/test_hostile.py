"""A few attacks of every kind, and that what must not happen would be noticed."""

import json
import random

import pytest

from tests.hostile import children
from tests.hostile.__main__ import main
from tests.hostile.children import attack_in_children
from tests.hostile.damage import damaged
from tests.hostile.kinds import KINDS, load_kind


def test_damaged_data_files_and_checkpoints_are_refused_or_right(tmp_path, capsys):
    report = tmp_path / "report.json"
    chosen = ["--kind", "data", "--kind", "checkpoints", "--seed", "3", "--count", "20", "--report", str(report)]
    assert main(chosen) == 0, capsys.readouterr().out
    kept = json.loads(report.read_text())
    for kind in ("data", "checkpoints"):
        assert kept[kind]["tried"] == 20 and kept[kind]["findings"] == []
        assert kept[kind]["refused"] >= 10
        assert kept[kind]["crashes"] == kept[kind]["wrong_values"] == kept[kind]["slow"] == 0
    assert len(kept["data"]["parts"]) >= 8


def test_a_process_that_dies_hangs_or_reads_wrong_values_is_noticed(monkeypatch):
    monkeypatch.setattr(children, "HANG_SECONDS", 5.0)
    report = attack_in_children("made", "tests.hostile.made_attacks", 7, 7)
    assert not report.is_good
    total = report.total
    assert (total.tried, total.refused, total.crashes, total.wrong_values, total.slow) == (7, 3, 3, 1, 1)
    died, raised, hung, wrong = report.findings
    assert "seed 7, attack 1 (died): ended with -6" in died
    assert "attack 2" in raised and "KeyError: 'what is this'" in raised
    assert "attack 3 (died): hangs" in hung
    assert "attack 4 (made): wrong_values" in wrong


def test_attacks_that_cannot_begin_are_no_attacks(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)no attack was made: .*ModuleNotFoundError"):
        attack_in_children("none", "tests.hostile.not_there", 1, 2)


def test_damage_depends_on_the_seed_and_always_changes_something():
    content = bytes(range(256)) * 4
    ways = [damaged(content, random.Random(seed)) for seed in range(100)]
    assert ways == [damaged(content, random.Random(seed)) for seed in range(100)]
    assert all(changed != content for _, changed in ways)
    assert {name for name, _ in ways} == {"flip", "cut", "splice", "zeros", "swap"}


@pytest.mark.parametrize("name", KINDS)
def test_a_campaign_is_large_enough(name):
    least = {"data": 700, "checkpoints": 600}
    assert load_kind(name).COUNT >= least.get(name, 1)
