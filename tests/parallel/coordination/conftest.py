"""A chief and links of its workers, over real sockets."""

import pytest

from monolith.parallel.coordination import Coordinator, WorkerLink
from tests.parallel.coordination.small_job import SECRET


@pytest.fixture
def chief():
    with Coordinator(3, secret=SECRET) as coordinator:
        yield coordinator


@pytest.fixture
def link_to(chief):
    made = []

    def make(index: int = 1, **options) -> WorkerLink:
        made.append(WorkerLink(chief.address, index, secret=SECRET, **options))
        return made[-1]

    yield make
    chief.close()  # first: workers that watch are answered at once
    for link in made:
        link.close()
