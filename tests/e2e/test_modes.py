"""The specification's modes of a job on CPUs: dispatcher, data workers, parameter servers and workers as processes."""

import pytest

from monolith.checkpoint import latest_state
from monolith.checkpoint.format.manifest import read_manifest
from tests.e2e.mode_job import BATCH, EVENTS_PER_FILE, INPUT_VARIABLE, NUM_FILES, be_a_process, write_input
from tests.free_port import free_port
from tests.new_processes import PROCESSES
from tests.patience import PATIENCE_SECONDS
from tests.train.job.test_data_roles import data_workers

ROLES = {"dispatcher": 1, "dsworker": 2, "ps": 2, "worker": 2}


def environment() -> dict[str, str]:
    """What a platform tells every process of the job."""
    found = {}
    for role, count in ROLES.items():
        found[f"MLP_{role.upper()}_NUM"] = str(count)
        for index in range(count):
            found[f"MLP_{role.upper()}_{index}_PRIMARY_HOST"] = "127.0.0.1"
            found[f"MLP_{role.upper()}_{index}_PORT"] = str(free_port())
    return found


@pytest.mark.services
@pytest.mark.parametrize("native", [False, True], ids=["tables", "multi"])
@pytest.mark.parametrize("fused", [False, True], ids=["plain", "fused"])
def test_cpu(tmp_path, fused, native):
    common = environment() | {INPUT_VARIABLE: write_input(tmp_path)}
    settings = {
        "enable_fused_layout": fused,
        "use_native_multi_hash_table": native,
        "embedding_prefetch_capacity": 1,
        "enable_embedding_postpush": True,
    }
    processes = {}
    for role, count in ROLES.items():
        for index in range(count):
            own = {
                "MLP_ROLE": role,
                "MLP_ROLE_INDEX": str(index),
                "MLP_PORT": common[f"MLP_{role.upper()}_{index}_PORT"],
            }
            processes[role, index] = PROCESSES.Process(
                target=be_a_process, args=(common | own, str(tmp_path / "model")), kwargs=settings, daemon=True
            )
            processes[role, index].start()
        if role == "dsworker":
            data_workers(tmp_path / "model", count)
    try:
        for process in processes.values():
            process.join(PATIENCE_SECONDS)
        assert [process.exitcode for process in processes.values()] == [0] * len(processes)
    finally:
        for process in processes.values():
            process.kill()
    path = latest_state(tmp_path / "model")
    assert path.name == f"model.ckpt-{NUM_FILES * EVENTS_PER_FILE // BATCH}", "every batch is trained on once"
    assert read_manifest(path).extra["shards"], "rows are on parameter servers"
