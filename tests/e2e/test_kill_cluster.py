"""Any process of a job is killed or frozen, or its network fails, at any instant: every batch is applied once."""

import pytest

from tests.e2e.cluster_faults import MODES, run_faults


@pytest.mark.services
@pytest.mark.parametrize("mode", MODES)
def test_every_batch_is_applied_once(tmp_path, mode, request):
    run_faults(tmp_path, mode, 3, request.config.getoption("--kills-seed", 0))
