"""The clock of a synchronous job: rows expire by the newest event of all ranks, on all ranks."""

import torch

import monolith as mono
from monolith.checkpoint import latest_state
from monolith.train.trained_model import TrainedModel
from tests.train.ranks.rank_processes import Ranks
from tests.train.ranks.sync_model import HOUR, START, config_of

NUM_STEPS = 8


class Aging(mono.MonolithModel):
    """Every event has an id of its own, which expires after a day; the events of rank 0 are all of the first hours."""

    def __init__(self, params):
        super().__init__(params)
        self.create_embedding_feature_column("uid", expire_time=1)
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.optimizer = torch.optim.SGD(self.parameters(), lr=1.0)

    def input_fn(self, mode):
        events = torch.arange(2 * NUM_STEPS)
        times = START + torch.where(events % 2 == 0, events, events // 2 * 10 * HOUR)
        return mono.data.arrays({"uid": events, "label": events.float(), "req_time": times}, batch_size=1)

    def model_fn(self, features, mode):
        (row,) = self.lookup_embedding_slice(["uid"], slice_dim=1)
        loss = row.sum() + self.weight.sum()
        return mono.EstimatorSpec(
            label=features["label"], pred=features["label"], loss=loss, optimizer=self.optimizer, classification=False
        )


def age(folder):
    return mono.Estimator(Aging, config_of(folder)).train().global_step


def test_rows_of_all_ranks_expire_by_the_newest_event_of_all(tmp_path):
    with Ranks(2, age, tmp_path) as ranks:
        assert ranks.results() == [NUM_STEPS] * 2
    table = TrainedModel(Aging({}), latest_state(tmp_path)).tables["uid"]
    # The rows of a step have its newest time. A day holds the last three steps, which are ten hours apart.
    assert table.contains(torch.arange(2 * NUM_STEPS)).nonzero().flatten().tolist() == list(range(10, 16))
