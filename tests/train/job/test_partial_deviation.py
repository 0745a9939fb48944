"""What recovery changes in a model whose gradients depend on its rows: nothing, or with partial recovery, little."""

import pytest

from tests.train.job.partial_deviation import BATCH, measured, moved_by_repeated, undisturbed

NUM_EVENTS = 200 * BATCH


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("alone"), NUM_EVENTS)


@pytest.mark.services
def test_exact_recovery_leaves_the_bits_of_a_run_that_nothing_happened_to(tmp_path, alone):
    found = measured(tmp_path, NUM_EVENTS, partial=False, alone=alone)
    assert found == {"rows": 0.0, "loss": 0.0, "auc": 0.0}


@pytest.mark.services
def test_partial_recovery_moves_rows_less_than_the_repeated_batches_and_leaves_the_auc(tmp_path, alone):
    found = measured(tmp_path, NUM_EVENTS, partial=True, alone=alone)
    print(f"partial recovery: {found}, the repeated batches move rows by {moved_by_repeated(alone)}")
    # Batches that were lost, or applied twice, would show as what they move.
    assert 0.0 < found["rows"] < moved_by_repeated(alone) / 2
    # As much as two workers may be off for training at the same time.
    assert abs(found["auc"]) <= 0.001
    assert abs(found["loss"]) <= 0.002
