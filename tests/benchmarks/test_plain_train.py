"""The bound of a training step does the work it claims to do."""

from __future__ import annotations

import pytest
import torch

from monolith._core import native


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("dim", [3, 16, 32, 64])
def test_it_reads_the_weights_and_steps_the_rows(dim: int, far: bool) -> None:
    rows = torch.rand(200, 2 * dim) + 0.1
    ids, gradients = torch.randperm(200)[:137], torch.randn(137, dim)
    before, out = rows.clone(), torch.zeros(137, dim)
    native.plain_train(rows, ids, out, gradients, 0.5, 100, far)
    weights, state = before[ids, :dim], before[ids, dim:] + gradients**2
    assert torch.equal(out, weights)
    torch.testing.assert_close(rows[ids, dim:], state)
    torch.testing.assert_close(rows[ids, :dim], weights - 0.5 / state.sqrt() * gradients)
    others = torch.tensor([row for row in range(200) if row not in ids.tolist()])
    assert torch.equal(rows[others], before[others])


def test_a_row_outside_the_array_changes_nothing() -> None:
    rows = torch.ones(4, 32)
    with pytest.raises(ValueError, match="row number 4 is outside the array of 4 rows"):
        native.plain_train(rows, torch.tensor([0, 4]), torch.zeros(2, 16), torch.ones(2, 16), 0.5, 1)
    assert rows.eq(1).all()
