"""What the tests of the zoo share."""

import pytest


@pytest.fixture(autouse=True)
def always_one_thread(one_thread: None) -> None:
    """All of them train small batches."""
