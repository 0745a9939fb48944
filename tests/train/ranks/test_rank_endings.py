"""How synchronous runs end: together, at the first end of data, when one is asked to stop, and when a rank fails."""

import os
import traceback

import pytest
import torch

import monolith as mono
from monolith.checkpoint import latest_state, list_snapshots
from monolith.checkpoint.format.manifest import read_manifest
from monolith.train.trained_model import TrainedModel
from tests.train.ranks.every_optimizer import OVERLAPS
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import STEPS, Rated, config_of, train, train_watched
from tests.train.ranks.test_rank_runs import assert_same, trained


def step_of(folder):
    return read_manifest(latest_state(folder)).step


class Sums(mono.MonolithModel):
    """Its weight is the sum of all numbers it was trained on, averaged over the ranks."""

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column("uid")
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=1.0)

    def input_fn(self, mode):
        numbers = torch.tensor(self.params["numbers"])
        return mono.data.arrays({"uid": numbers, "x": numbers.float(), "label": numbers.float()}, batch_size=1)

    def model_fn(self, features, mode):
        (row,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        loss = row.sum() - self.weight.sum() * features["x"].sum()
        return mono.EstimatorSpec(
            label=features["label"], pred=features["x"], loss=loss, optimizer=self.optimizer, classification=False
        )


def add_up(folder, numbers):
    result = mono.Estimator(Sums, config_of(folder), params={"numbers": numbers}).train()
    return result.global_step, result.ending


def test_all_end_with_the_first_whose_data_ends(tmp_path):
    # Rank 0 reads 1, 3 and 5, rank 1 reads 2 and 4: both take two steps.
    with Ranks(2, add_up, tmp_path, [1, 2, 3, 4, 5]) as ranks:
        assert ranks.results() == [(2, "rank 1: the data ended"), (2, "the data ended")]
    weights = mono.Estimator(Sums, config_of(tmp_path), params={"numbers": [1]}).get_variable_value("weight")
    assert float(weights) == 1.5 + 3.5


def test_a_job_that_stopped_continues_as_if_it_had_not(tmp_path):
    with Ranks(2, train, tmp_path / "straight", 2) as ranks:
        ranks.results()
    for steps in (5, 4):
        with Ranks(2, train, tmp_path / "stopped", 2, steps) as ranks:
            ranks.results()
    first, second = trained(tmp_path / "straight"), trained(tmp_path / "stopped")
    assert first.global_step == second.global_step == STEPS
    for name in ("uid", "mov"):
        ids = torch.arange(120)
        assert torch.equal(first.tables[name].lookup(ids), second.tables[name].lookup(ids))
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.services
@pytest.mark.parametrize("num_ranks", [1, 3])
def test_another_number_of_ranks_starts_from_a_checkpoint(tmp_path, num_ranks):
    with Ranks(2, train, tmp_path / "first", 2, 4) as ranks:
        ranks.results()
    changes = {"restore_dir": str(tmp_path / "first")}
    with Ranks(num_ranks, train, tmp_path / "second", num_ranks, None, changes) as ranks:
        assert ranks.results()[0][0] == 4 + STEPS
    first, second = (trained_at(tmp_path / name, 4) for name in ("first", "second"))
    assert_same(first, second)


def trained_at(folder, step):
    (path,) = [one for one in list_snapshots(folder) if read_manifest(one).step == step]
    return TrainedModel(Rated({"num_ranks": 1, "batches_together": 1}), path)


@pytest.mark.parametrize("kind", ["stop", "terminate"])
def test_one_rank_that_is_asked_to_stop_stops_all(tmp_path, kind):
    with Ranks(2, train_watched, tmp_path, 2, kind) as ranks:
        found = ranks.results()
    assert [step for step, _, _ in found] == [6, 6]
    own, other = ("a hook asked for a stop", 1) if kind == "stop" else ("interrupted at step 6", 0)
    assert found[other][1].startswith(own)
    assert found[1 - other][1].startswith(f"rank {other}: {own}")
    assert step_of(tmp_path) == 6


SERVICES = pytest.mark.services
FAULTS = {
    "nan": ("rank 1: NotFiniteError: the loss is nan at step 3", 0),
    "nan gradients": ("the gradients of rows of rank 1 are not finite", 0),
    "ruined row": ("the step would make the row of id", 0),
    "hook fails elsewhere": ("rank 1: OSError: the hook of rank 1", 4),
    "hook fails": ("rank 0: OSError: the hook of rank 0", 6),
    "kill": ("lost others (rank 1)", 4),
}
"""What happens to a rank: what the others say, and the step of the newest checkpoint then."""


def check_fault(kind, said_by_rank, step):
    words, saved = FAULTS[kind]
    culprit = {"hook fails": 0, "nan gradients": None, "ruined row": None}.get(kind, 1)
    for rank, said in said_by_rank.items():
        if culprit is None:
            assert "NotFiniteError" in said and words in said, said
        elif rank != culprit:
            assert "ConnectionError" in said and words in said, said
    assert step == saved


@pytest.mark.parametrize("kind", ["nan", *(pytest.param(one, marks=SERVICES) for one in ("kill", "ruined row"))])
def test_every_rank_says_which_failed_and_why(tmp_path, kind):
    with Ranks(3, train_watched, tmp_path, 3, kind) as ranks:
        found = ranks.reports(2 if kind == "kill" else 3)
    assert not any(is_well for is_well, _ in found.values())
    check_fault(kind, {rank: said for rank, (_, said) in found.items()}, step_of(tmp_path))
    with Ranks(3, train, tmp_path, 3) as ranks:  # it restores
        assert ranks.results()[0][0] == STEPS


def suffer(folder, num_ranks):
    """Be a rank of jobs that fail one after another, with and without overlap, and go on; return what it said."""
    found = {}
    for overlap in ("none", "both"):
        for kind in (one for one in FAULTS if one != "kill"):
            place = folder / overlap / kind
            try:
                train_watched(place, num_ranks, kind, OVERLAPS[overlap])
            except Exception:  # noqa: BLE001  the test reads it
                found[overlap, kind] = traceback.format_exc(), step_of(place) if os.environ["RANK"] == "0" else None
            assert train(place, num_ranks, None, OVERLAPS[overlap])[0] == STEPS
    return found


@SERVICES
def test_ranks_that_overlap_say_the_same_and_their_checkpoints_restore(tmp_path):
    with Ranks(3, suffer, tmp_path, 3) as ranks:
        found = ranks.results()
    for key in found[0]:
        said = dict(enumerate(one[key][0] for one in found))
        check_fault(key[1], said, found[0][key][1])


@SERVICES
def test_a_rank_that_is_killed_while_ranks_overlap_is_named(tmp_path):
    with Ranks(2, train_watched, tmp_path, 2, "kill", OVERLAPS["both"]) as ranks:
        ((rank, (is_well, said)),) = ranks.reports(1).items()
    assert (rank, is_well) == (0, False)
    check_fault("kill", {0: said}, step_of(tmp_path))
    with Ranks(2, train, tmp_path, 2, None, OVERLAPS["both"]) as ranks:
        assert ranks.results()[0][0] == STEPS


@SERVICES
@pytest.mark.parametrize("overlap", ["none", "both"])
def test_a_frozen_rank_is_noticed_within_the_time_out(tmp_path, overlap):
    changes = {"operation_timeout_in_ms": 10_000, **OVERLAPS[overlap]}  # more than the others may be late
    with Ranks(3, train_watched, tmp_path, 3, "freeze", changes) as ranks:
        found = ranks.reports(2)
        assert all("lost others (rank 1)" in said for _, said in found.values()), found
    assert step_of(tmp_path) == 4


def test_a_rank_that_overlaps_alone_is_refused_by_name(tmp_path):
    with Ranks(2, train_watched, tmp_path, 2, "other overlap", {"operation_timeout_in_ms": 120_000}) as ranks:
        found = ranks.reports()
    for is_well, said in found.values():
        assert not is_well
        assert "enable_pipelined_fwda2a is False on rank 0 and True on rank 1" in said
    assert list_snapshots(tmp_path) == []


def test_a_rank_with_other_settings_is_refused_by_name(tmp_path):
    with Ranks(2, train_watched, tmp_path, 2, "other settings") as ranks:
        found = ranks.reports()
    for is_well, said in found.values():
        assert not is_well
        assert "evict_every_seconds is 3600 on rank 0 and 7200 on rank 1" in said
    assert list_snapshots(tmp_path) == []
