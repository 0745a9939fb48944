"""Every model of the zoo learns, and loses what it lost before."""

import json
import math
import runpy
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOL = runpy.run_path(str(ROOT / "tools" / "zoo_losses.py"))
GOLDEN = json.loads((ROOT / "tests" / "golden" / "zoo_losses.json").read_text(encoding="utf-8"))
ZOO = ROOT / "monolith" / "model" / "zoo"


def test_no_model_of_the_zoo_is_left_out():
    files = {path.stem.replace("_", "") for path in ZOO.glob("*.py")} - {"init", "clickmodel"}
    assert {name.lower() for name in GOLDEN} == files == {name.lower() for name in TOOL["MODELS"]}


@pytest.mark.parametrize("fused_layout", [False, True])
@pytest.mark.parametrize("name", GOLDEN)
def test_losses_are_those_of_the_golden_file_and_fall(name, fused_layout):
    losses = TOOL["first_losses"](name, fused_layout=fused_layout)
    np.testing.assert_allclose(losses, GOLDEN[name], rtol=1e-4)
    assert np.mean(losses[-5:]) < 0.9 * np.mean(losses[:5])


def test_the_first_loss_of_small_rows_is_that_of_a_coin():
    # Rows begin within 0.05 of zero and biases at zero, so every chance of the FFM model is near one half.
    assert GOLDEN["FFM"][0] == pytest.approx(64 * math.log(2), rel=1e-3)
