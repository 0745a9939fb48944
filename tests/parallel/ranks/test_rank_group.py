"""By what means ranks send each other messages."""

import pytest
import torch
import torch.distributed as dist

from monolith.parallel.ranks.rank_group import RankGroup, RankPlace
from tests.patience import PATIENCE_SECONDS


class AskedError(Exception):
    """Takes the place of a process group: NCCL needs a GPU, which tests have not."""


@pytest.mark.parametrize(("device", "backend"), [("cpu", "gloo"), ("cuda:1", "nccl")])
def test_the_device_of_messages_says_which_library_sends_them(device, backend, tmp_path, monkeypatch):
    def ask(name: str, **_: object) -> None:
        raise AskedError(name)

    monkeypatch.setattr(dist, "init_process_group", ask)
    group = RankGroup(RankPlace(), tmp_path, timeout_seconds=PATIENCE_SECONDS, device=torch.device(device))
    with pytest.raises(AskedError, match=backend):
        group.__enter__()
