"""What the tests of the zoo share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Small batches: a second thread would mostly wait, and sums would depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
