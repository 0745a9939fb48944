"""Which snapshots stay."""

import pytest

from monolith.checkpoint import latest_state, list_snapshots
from monolith.checkpoint.format.state_files import add_exempt_paths, get_checkpoint_state
from monolith.checkpoint.keep import Retention, retention, retire_snapshots
from tests.checkpoint.made_snapshots import names_in, save

HOUR = 3600.0


def steps_in(folder):
    return [int(path.name.split("-")[-1]) for path in list_snapshots(folder)]


def save_and_retire(folder, step, rule, *, time=0.0, started=0.0):
    save(folder, step, time=time)
    return retire_snapshots(folder, rule, started=started)


def test_the_newest_so_many_stay(tmp_path):
    rule = Retention(max_to_keep=2)
    seen = []
    for step in (1, 2, 3, 10):
        save_and_retire(tmp_path, step, rule)
        seen.append(steps_in(tmp_path))
    assert seen == [[1], [1, 2], [2, 3], [3, 10]]
    state = get_checkpoint_state(tmp_path)
    assert [path.split("-")[-1] for path in state.all_model_checkpoint_paths] == ["3", "10"]


@pytest.mark.parametrize("everything", [None, 0])
def test_all_stay(tmp_path, everything):
    for step in range(4):
        assert save_and_retire(tmp_path, step, Retention(max_to_keep=everything)) == []
    assert steps_in(tmp_path) == [0, 1, 2, 3]


def test_exempt_ones_stay_and_do_not_count(tmp_path):
    rule = Retention(max_to_keep=2, exempt=("model.ckpt-1",))
    for step in (1, 2, 3):
        save_and_retire(tmp_path, step, rule)
    assert steps_in(tmp_path) == [1, 2, 3]
    # The file is read each time: what is exempt may change while a run goes on.
    add_exempt_paths(tmp_path, ["model.ckpt-2"])
    for step in (4, 5):
        save_and_retire(tmp_path, step, rule)
    assert steps_in(tmp_path) == [1, 2, 4, 5]
    (tmp_path / "monolith_checkpoint").unlink()
    retire_snapshots(tmp_path, rule, started=0.0)
    assert steps_in(tmp_path) == [1, 4, 5]


def test_a_snapshot_of_the_same_name_elsewhere_exempts_nothing_here(tmp_path):
    add_exempt_paths(tmp_path / "here", [str(save(tmp_path / "there", 1))])
    for step in (1, 2):
        save_and_retire(tmp_path / "here", step, Retention(max_to_keep=1))
    assert steps_in(tmp_path / "here") == [2]
    assert steps_in(tmp_path / "there") == [1]


def test_one_is_kept_for_good_every_so_often(tmp_path):
    rule = Retention(max_to_keep=2, keep_every_hours=0.7)
    for step, hours in ((1, 1.0), (2, 1.1), (3, 1.2), (4, 1.3)):
        save_and_retire(tmp_path, step, rule, time=hours * HOUR)
    # 1 is more than 0.7 h after the start, 2 is close to 1.
    assert steps_in(tmp_path) == [1, 3, 4]
    assert get_checkpoint_state(tmp_path).last_preserved_timestamp == 1.0 * HOUR
    # After a restart, 1 is still known as kept for good; `started` no longer matters.
    save_and_retire(tmp_path, 5, rule, time=1.8 * HOUR, started=100 * HOUR)
    save_and_retire(tmp_path, 6, rule, time=1.9 * HOUR, started=100 * HOUR)
    assert steps_in(tmp_path) == [1, 5, 6]
    save_and_retire(tmp_path, 7, rule, time=2.0 * HOUR, started=100 * HOUR)
    assert steps_in(tmp_path) == [1, 5, 6, 7]


def test_what_a_later_one_needs_stays(tmp_path):
    for step, base in ((1, None), (2, None), (3, "model.ckpt-1"), (4, None)):
        save(tmp_path, step, extra={"base": base} if base else {})
    assert [path.name for path in retire_snapshots(tmp_path, Retention(max_to_keep=2))] == ["model.ckpt-2"]
    save(tmp_path, 5)
    assert steps_in(tmp_path) == [1, 3, 4, 5]
    removed = retire_snapshots(tmp_path, Retention(max_to_keep=2))
    assert {path.name for path in removed} == {"model.ckpt-1", "model.ckpt-3"}


def test_needs_go_through_others_and_may_be_told_by_the_caller(tmp_path):
    paths = [save(tmp_path, step) for step in (1, 2, 3, 4)]
    chain = {paths[3]: {paths[2]}, paths[2]: {paths[0]}}
    removed = retire_snapshots(tmp_path, Retention(max_to_keep=1), needed_by=lambda path: chain.get(path, set()))
    assert removed == [paths[1]]


def make_delta(folder, base, number, step):
    save(folder / "made", step, extra={"base": f"model.ckpt-{base}"}).rename(
        folder / f"model.ckpt-{base}.delta-{number}"
    )
    (folder / "made").rmdir()


def test_deltas_hold_their_base_while_they_lead_further_than_what_stays(tmp_path):
    save(tmp_path, 10)
    make_delta(tmp_path, 10, 1, 15)
    make_delta(tmp_path, 10, 2, 18)
    save(tmp_path, 20)
    rule = Retention(max_to_keep=1)
    removed = [path.name for path in retire_snapshots(tmp_path, rule)]
    # Deltas go before what they need, the last first.
    assert removed == ["model.ckpt-10.delta-2", "model.ckpt-10.delta-1", "model.ckpt-10"]
    make_delta(tmp_path, 20, 1, 40)
    save(tmp_path, 30)
    assert retire_snapshots(tmp_path, rule) == []
    assert names_in(tmp_path) == ["model.ckpt-20", "model.ckpt-20.delta-1", "model.ckpt-30"]


def test_a_chain_that_leads_to_the_oldest_that_stays_stays_too(tmp_path):
    save(tmp_path, 10)
    make_delta(tmp_path, 10, 1, 20)
    save(tmp_path, 20)  # the same step twice: as long as the snapshot is the oldest, the chain can take its place
    assert retire_snapshots(tmp_path, Retention(max_to_keep=1)) == []
    assert names_in(tmp_path) == ["model.ckpt-10", "model.ckpt-10.delta-1", "model.ckpt-20"]
    save(tmp_path, 21)
    removed = [path.name for path in retire_snapshots(tmp_path, Retention(max_to_keep=1))]
    assert removed == ["model.ckpt-10.delta-1", "model.ckpt-10", "model.ckpt-20"]


def test_after_a_crash_at_any_moment_no_half_snapshot_is_listed_or_used(tmp_path, monkeypatch):
    for step in (1, 2, 3):
        save(tmp_path, step)

    def crash(path):
        (path / "manifest.json").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(retention, "remove_snapshot", crash)
    with pytest.raises(KeyboardInterrupt):
        retire_snapshots(tmp_path, Retention(max_to_keep=2))
    listed = get_checkpoint_state(tmp_path).all_model_checkpoint_paths
    assert [path.split("-")[-1] for path in listed] == ["2", "3"]
    assert latest_state(tmp_path).name == "model.ckpt-3"
    monkeypatch.undo()
    # What has no manifest does not count.
    save(tmp_path, 4)
    retire_snapshots(tmp_path, Retention(max_to_keep=2))
    assert [step for step in steps_in(tmp_path) if step != 1] == [3, 4]


@pytest.mark.parametrize(
    "settings", [{"max_to_keep": -1}, {"keep_every_hours": 0.0}, {"keep_every_hours": float("nan")}]
)
def test_values_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValueError, match="Retention: "):
        Retention(**settings)
